package trial

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/tidemark-streams/tidemark/internal/record"
	"github.com/tidemark-streams/tidemark/internal/store"
)

// The kinds of damage: those below forged are noticed by the file's own checksums.
const (
	forged = 4
)

// damage hurts the newest checkpoint of one task, if there is one: a start must notice, set it aside, and come out right.
func (c *chapter) damage(kind int) error {
	found, err := c.local("*.checkpoint")
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
	switch at := c.random.IntN(len(text)); kind {
	default:
		return c.forge(path)
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
	case 3:
		how = "a byte appended"
		text = append(text, 0)
	}
	c.isHurt(path, how)
	return os.WriteFile(path, text, 0o600)
}

func (c *chapter) isHurt(path, how string) {
	c.hurt[path] = true
	c.note("%s of %s: %s", filepath.Base(path), filepath.Base(filepath.Dir(path)), how)
	c.trial.note(c.number, "", func(s *Summary) { s.Damaged++ })
}

// startBytes are the last ones of an entry's key: where its window begins. Before them lies the text of a key field.
const startBytes = 8

// forge makes another checkpoint out of one, whole and with every checksum right, whose entries differ in their last bit
// and one of which is there twice, under a key that no reading has: only the proof of the state against the log can notice (I7).
func (c *chapter) forge(path string) (err error) {
	m := store.NewMemory(0)
	defer func() { err = errors.Join(err, m.Close()) }()
	info, err := store.Load(store.Disk, path, m, 1)
	if err != nil || m.Live() == 0 {
		return nil // hurt before, or empty
	}
	m.Prove()
	type entry struct {
		hash       uint64
		key, value []byte
	}
	var all []entry
	m.All(func(hash uint64, key, value []byte) bool {
		all = append(all, entry{hash, bytes.Clone(key), bytes.Clone(value)})
		return true
	})
	ghost := bytes.Clone(all[0].key)
	ghost[len(ghost)-startBytes-1] ^= 1 << 5
	m.Set(record.Hash(ghost), ghost, all[0].value)
	for _, e := range all {
		if len(e.value) > 0 {
			e.value[len(e.value)-1] ^= 1
			m.Set(e.hash, e.key, e.value)
		}
	}
	var sum store.Sum
	sum.Digest, sum.Live = m.Prove()
	aside := filepath.Join(c.dir, "forged")
	dir, err := store.OpenDir(store.Disk, aside)
	if err != nil {
		return err
	}
	w, err := dir.Create(&info.Header)
	if err != nil {
		return err
	}
	scan := m.StartScan()
	for done := false; !done; {
		var slice []byte
		slice, done = scan.Next(nil)
		if err := w.WriteBlock(slice); err != nil {
			return err
		}
	}
	published, err := w.Publish(info.End, sum, scan.Delta())
	if err != nil {
		return err
	}
	c.isHurt(path, "forged")
	return os.Rename(published.Path, path)
}

// local are the files of a pattern, or the directories, of all tasks.
func (c *chapter) local(pattern string) (paths []string, err error) {
	for _, p := range c.job.Parts() {
		found, err := filepath.Glob(filepath.Join(p.StateDir, p.Name, "p*", pattern))
		if err != nil {
			return nil, err
		}
		paths = append(paths, found...)
	}
	return paths, nil
}

// leaveTmp leaves what an attempt to write a checkpoint would have left that was killed.
func (c *chapter) leaveTmp() error {
	dirs, err := c.local("")
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
