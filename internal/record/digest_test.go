package record

import (
	"testing"

	"pgregory.net/rapid"
)

type entry struct{ key, value string }

func (e entry) digest() Digest { return EntryDigest([]byte(e.key+e.value), len(e.key)) }

func drawEntries(t *rapid.T) []entry {
	text := rapid.StringN(0, 8, 32)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) entry {
		return entry{key: text.Draw(t, "key"), value: text.Draw(t, "value")}
	}), 0, 20).Draw(t, "entries")
}

func sum(entries []entry) (d Digest) {
	for _, e := range entries {
		d = d.Add(e.digest())
	}
	return d
}

func TestDigestDoesNotKnowTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := drawEntries(t)
		shuffled := rapid.Permutation(entries).Draw(t, "shuffled")
		if a, b := sum(entries), sum(shuffled); a != b {
			t.Fatalf("%v in one order, %v in another", a, b)
		}
	})
}

// TestDigestForgets: what a task does all day is to subtract the old value of a key and to add the new one; the running
// digest must equal that of the entries that are left.
func TestDigestForgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		running, live := Digest{}, map[string]string{}
		for _, e := range drawEntries(t) {
			if old, ok := live[e.key]; ok {
				running = running.Sub(entry{e.key, old}.digest())
			}
			delete(live, e.key)
			if e.value != "" { // an empty value stands for a tombstone here
				running = running.Add(e.digest())
				live[e.key] = e.value
			}
		}
		var left []entry
		for k, v := range live {
			left = append(left, entry{k, v})
		}
		if want := sum(left); running != want {
			t.Fatalf("running digest %v, digest of the %d entries left %v", running, len(left), want)
		}
	})
}

// TestDigestSeesTheSplit: key and value are hashed as one string of bytes, so only the seed tells where the key ends.
func TestDigestSeesTheSplit(t *testing.T) {
	seen := map[Digest]int{}
	text := []byte("boiler-7 1704067200000 21.5")
	for n := range len(text) + 1 {
		d := EntryDigest(text, n)
		if other, ok := seen[d]; ok {
			t.Errorf("split at %d and at %d have the digest %v", n, other, d)
		}
		seen[d] = n
	}
}

func TestDigestSeesEveryBit(t *testing.T) {
	key := sampleKey()
	kv := append(sampleKey(), "value"...)
	want := EntryDigest(kv, len(key))
	for bit := range len(kv) * 8 {
		kv[bit/8] ^= 1 << (bit % 8)
		if EntryDigest(kv, len(key)) == want {
			t.Errorf("bit %d flipped, same digest", bit)
		}
		kv[bit/8] ^= 1 << (bit % 8)
	}
}

func TestDigestText(t *testing.T) {
	if got, want := (Digest{Hi: 1, Lo: 0xab}).String(), "000000000000000100000000000000ab"; got != want {
		t.Errorf("String = %s, want %s", got, want)
	}
}
