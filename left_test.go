package tidemark

import (
	"bytes"
	"regexp"
	"runtime"
	"testing/synctest"
)

// nothingLeft checks that only the calling goroutine is left in the bubble of a test.
func (w *world) nothingLeft() {
	w.t.Helper()
	synctest.Wait()
	for _, stack := range bubble() {
		w.t.Errorf("left behind:\n%s", stack)
	}
}

var bubbled = regexp.MustCompile(`^goroutine \d+ \[[^\n]*synctest bubble (\d+)`)

// bubble are the stacks of the other goroutines of the caller's bubble, without those that are the bubble.
func bubble() (others [][]byte) {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	all := bytes.Split(stacks, []byte("\n\n"))
	own := bubbled.FindSubmatch(all[0])
	for _, stack := range all[1:] {
		if in := bubbled.FindSubmatch(stack); own != nil && in != nil && bytes.Equal(in[1], own[1]) && !bytes.Contains(stack, []byte("\ntesting/synctest.")) {
			others = append(others, stack)
		}
	}
	return others
}
