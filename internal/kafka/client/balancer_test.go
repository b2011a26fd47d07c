package client

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// spreadOf runs spread on members in any order and returns the shares by key.
func spreadOf(members []seat, n int32) map[string][]int32 {
	members = slices.Clone(members)
	shares := map[string][]int32{}
	for i, share := range spread(members, n) {
		shares[members[i].key] = share
	}
	return shares
}

func TestSpread(t *testing.T) {
	r := seeded(t)
	for range 2000 {
		n := r.Int32N(40)
		members := make([]seat, 1+r.IntN(6))
		for i := range members {
			members[i] = seat{key: fmt.Sprint("m", i), generation: r.Int32N(3)}
			for range r.IntN(12) {
				members[i].claims = append(members[i].claims, r.Int32N(n+3)-1) // some outside the topic
			}
			slices.Sort(members[i].claims)
			members[i].claims = slices.Compact(members[i].claims)
		}
		shares := spreadOf(members, n)
		var all []int32
		low, high := n, int32(0)
		for _, share := range shares {
			all = append(all, share...)
			low, high = min(low, int32(len(share))), max(high, int32(len(share)))
			if !slices.IsSorted(share) {
				t.Fatalf("%v is not ascending", share)
			}
		}
		slices.Sort(all)
		for p := range n {
			if int(n) != len(all) || all[p] != p {
				t.Fatalf("%d partitions, assigned %v", n, all)
			}
		}
		if high-low > 1 {
			t.Fatalf("shares of %d to %d", low, high)
		}
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		if again := spreadOf(members, n); fmt.Sprint(again) != fmt.Sprint(shares) {
			t.Fatalf("another order of members gives %v, not %v", again, shares)
		}
		stays(t, r, members, shares, n)
	}
}

// stays checks that what was just assigned is assigned again, and that a newcomer takes no more than its share.
func stays(t *testing.T, r *rand.Rand, members []seat, shares map[string][]int32, n int32) {
	t.Helper()
	settled := make([]seat, len(members))
	for i, m := range members {
		settled[i] = seat{key: m.key, generation: 9, claims: shares[m.key]}
	}
	if again := spreadOf(settled, n); fmt.Sprint(again) != fmt.Sprint(shares) {
		t.Fatalf("%v became %v though nothing changed", shares, again)
	}
	gone := r.IntN(len(settled))
	rest := slices.Delete(slices.Clone(settled), gone, gone+1)
	for key, share := range spreadOf(rest, n) {
		for _, p := range shares[key] {
			if !slices.Contains(share, p) {
				t.Fatalf("%s lost partition %d because another member left: %v, then %v", key, p, shares[key], share)
			}
		}
	}
	moved := 0
	for key, share := range spreadOf(append(settled, seat{key: "new"}), n) {
		for _, p := range share {
			if !slices.Contains(shares[key], p) {
				moved++
			}
		}
	}
	if most := (int(n) + len(members)) / (len(members) + 1); moved > most {
		t.Fatalf("%d of %d partitions moved for one newcomer to %d members", moved, n, len(members))
	}
}

func TestSpreadWithoutMembers(t *testing.T) {
	if got := spread(nil, 5); got != nil {
		t.Fatal(got)
	}
}

// An older claim was overruled while its member was away.
func TestNewestClaimWins(t *testing.T) {
	shares := spreadOf([]seat{
		{key: "a", generation: 3, claims: []int32{0, 1, 2}},
		{key: "b", generation: 5, claims: []int32{1, 2}},
	}, 3)
	if fmt.Sprint(shares) != "map[a:[0] b:[1 2]]" {
		t.Fatal(shares)
	}
}
