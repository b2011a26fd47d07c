package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// peer is a program, with its settings, that tidemark is measured beside.
type peer struct {
	flag, name string
	recovers   string // from what, when its disk is left as it was
	rate       bool   // whether its rate is measured, or only its recovery
	lost       bool   // whether its recovery is measured without its disk too
	updates    bool   // it publishes a window again each time it has changed, and never a last time
	java       func(b *bench, a *application) []string
	resume     func(a *application) ([]string, error) // arguments on top after a crash; nil for none
}

// peers are all that can be chosen.
func peers() []*peer { return slices.Concat(streams, flinks) }

// choose returns the peers that the flag names, all for the empty flag.
func choose(flags string) (chosen []*peer, err error) {
	all := peers()
	if flags == "" {
		return all, nil
	}
	for _, name := range strings.Split(flags, ",") {
		i := slices.IndexFunc(all, func(p *peer) bool { return p.flag == name })
		if i < 0 {
			var names []string
			for _, p := range all {
				names = append(names, p.flag)
			}
			return nil, fmt.Errorf("-peers %s: %q is none of %s", flags, name, strings.Join(names, ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// application is a job of a peer. Its group at the broker has its name.
type application struct {
	*peer
	name, output, state string
	input               *input
}

// application makes the topic and the local directory of a new job.
func (b *bench) application(p *peer, in *input) (*application, error) {
	name := b.name(p.flag)
	a := &application{peer: p, name: name, output: name + "-hourly", state: filepath.Join(b.dir, name+".state"), input: in}
	if err := os.Mkdir(a.state, 0o755); err != nil {
		return nil, err
	}
	b.progress("%s: %s", p.name, name)
	return a, b.topics(in.partitions, a.output)
}

// launch starts a job, with the arguments on top that resume gave.
func (b *bench) launch(a *application, more []string) (*process, error) {
	common := []string{"input=" + a.input.topic, "output=" + a.output, "target=" + strconv.Itoa(a.input.sent)}
	return b.start("java", slices.Concat(a.java(b, a), common, more)...)
}

// offsets are the offsets that a job has committed, by input partition; missing where none is.
func (b *bench) offsets(a *application) (map[int32]int64, error) {
	all, err := b.admin.FetchOffsets(b.ctx, a.name)
	if err != nil {
		return nil, fmt.Errorf("offsets of %s: %w", a.name, err)
	}
	at := map[int32]int64{}
	for p, o := range all[a.input.topic] {
		at[p] = o.At
	}
	return at, nil
}
