// Package spelling finds the name that somebody meant who wrote another one. It promises to be quick with thousands of
// names, and to say nothing when none of them is near.
package spelling

import "strings"

// Nearest returns the candidate that was probably meant by word, or "". Small and large letters are the same to it.
func Nearest(word string, candidates []string) string {
	best, least := "", 1+max(1, len(word)/3)
	folded := strings.ToLower(word)
	for _, candidate := range candidates {
		if d := distance(folded, strings.ToLower(candidate), least); d < least {
			best, least = candidate, d
		}
	}
	return best
}

// distance is the number of letters to insert, delete, replace or swap with their neighbour to make b of a; at least
// limit is returned as limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}
