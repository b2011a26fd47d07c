package trial

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// damage hurts the newest checkpoint of one task, if there is one: a start must notice, set it aside, and come out right.
func (c *chapter) damage() error {
	found, err := filepath.Glob(filepath.Join(c.job.LocalState(), "p*", "*.checkpoint"))
	if err != nil || len(found) == 0 {
		return err
	}
	// The newest of a random task.
	dir := filepath.Dir(found[c.random.IntN(len(found))])
	found = slices.DeleteFunc(found, func(path string) bool { return filepath.Dir(path) != dir })
	slices.Sort(found)
	path := found[len(found)-1]
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		return err
	}
	var how string
	switch at := c.random.IntN(len(text)); c.random.IntN(4) {
	case 0:
		how = fmt.Sprintf("bit flipped at byte %d", at)
		text[at] ^= 1 << c.random.IntN(8)
	case 1:
		how = fmt.Sprintf("cut to %d bytes", at)
		text = text[:at]
	case 2:
		how = fmt.Sprintf("zeros from byte %d on", at)
		before := string(text[at:])
		clear(text[at:min(len(text), at+512)])
		if before == string(text[at:]) {
			text = text[:at] // they were zeros before
		}
	default:
		how = "a byte appended"
		text = append(text, 0)
	}
	c.hurt[path] = true
	c.note("%s of %s: %s", filepath.Base(path), filepath.Base(dir), how)
	c.trial.note(c.number, "", func(s *Summary) { s.Damaged++ })
	return os.WriteFile(path, text, 0o600)
}

// leaveTmp leaves what an attempt to write a checkpoint would have left that was killed.
func (c *chapter) leaveTmp() error {
	dirs, err := filepath.Glob(filepath.Join(c.job.LocalState(), "p*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := os.WriteFile(filepath.Join(dir, "0000999999.checkpoint.tmp"), []byte("half a checkpoint"), 0o600); err != nil {
			return err
		}
	}
	return nil
}
