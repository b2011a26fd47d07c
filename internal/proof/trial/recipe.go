package trial

import "strings"

// recipe says what it takes to reach a point.
type recipe struct {
	birth bool // it is reached at the first start of a job only
	reset bool // by the command reset
	leave bool // by a run until idle, at its end
	hurt  bool // a damaged checkpoint must be there
	tmp   bool // what an attempt to write a checkpoint left behind must be there
	most  int  // the order may wait for so many times
}

// recipeOf is the recipe of a point.
func recipeOf(point string) recipe {
	room, step, _ := strings.Cut(point, ".")
	r := recipe{most: 1}
	switch room {
	case "commit":
		r.most = 8
	case "wire":
		r.most = 6
	case "recover":
		r.most = 2
	case "repair":
		r.birth, r.reset = true, true
	case "checkpoint":
		r.most = 3
	}
	switch point {
	case "recover.start", "recover.birth-send", "recover.birth-commit":
		r.birth = true
	case "group.leave", "group.left", "wire.leave-group":
		r.leave, r.most = true, 1
	case "checkpoint.set-aside", "checkpoint.is-aside":
		r.hurt, r.most = true, 1
	case "checkpoint.sweep", "checkpoint.swept":
		r.tmp, r.most = true, 1
	case "wire.join-group", "wire.sync-group", "wire.init-producer-id":
		r.most = 1
	}
	if strings.HasPrefix(step, "re") && room == "checkpoint" { // remove-old, read: once is enough
		r.most = 1
	}
	return r
}
