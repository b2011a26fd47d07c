package tidemark

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// DefaultMaxBytes is what the state may take of a memory limit when nothing else is said: 60 % (section 6). The rest is
// for batches under way, reads ahead, and the program.
func DefaultMaxBytes(memoryLimit int64) int64 { return memoryLimit / 10 * 6 }

// maxState is state.max_bytes in force, and where it comes from.
type maxState struct {
	bytes int64
	from  string
}

// stateLimit is the limit that the options give, or 60 % of the memory limit.
func stateLimit(options *Options) maxState {
	if options.MaxBytes > 0 {
		return maxState{options.MaxBytes, "as configured"}
	}
	bytes, from := MemoryLimit()
	return maxState{DefaultMaxBytes(bytes), fmt.Sprintf("60 %% of %d bytes, %s", bytes, from)}
}

// MemoryLimit is how much memory this process may use, and what says so: the least limit of its control groups, of
// version 2 or 1, or else the memory of the machine.
func MemoryLimit() (limit int64, from string) { return memoryLimit(os.DirFS("/")) }

func memoryLimit(root fs.FS) (limit int64, from string) {
	limit, from = math.MaxInt64, "for no limit is known"
	least := func(bytes int64, what string) {
		if bytes > 0 && bytes < limit {
			limit, from = bytes, what
		}
	}
	if text, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		least(memTotal(text), "the memory of the machine")
	}
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return limit, from
	}
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) != 3:
		case fields[1] == "":
			groupLimits(root, "sys/fs/cgroup", fields[2], "memory.max", least)
		case strings.Contains(","+fields[1]+",", ",memory,"):
			groupLimits(root, "sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes", least)
		}
	}
	return limit, from
}

// groupLimits gives the limits of a control group and of those it is in. In a container the group's own name may not be
// visible; then its limit stands at the mount point.
func groupLimits(root fs.FS, mount, group, file string, least func(int64, string)) {
	for dir := path.Join(mount, path.Clean("/"+group)); ; dir = path.Dir(dir) {
		if text, err := fs.ReadFile(root, path.Join(dir, file)); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil { // "max" is none
				least(n, "the limit in /"+path.Join(dir, file))
			}
		}
		if dir == mount {
			return
		}
	}
}

func memTotal(meminfo []byte) int64 {
	for lines := bufio.NewScanner(bytes.NewReader(meminfo)); lines.Scan(); {
		var kib int64
		if n, _ := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// replayBytes is the size of one fetch of a replay: a 150th of what the heap may take. Up to maxLoads tasks
// have three such fetches in memory, each about five times that as records, so all together they take two fifths of it (S71).
func replayBytes() int {
	const least, most = 256 << 10, 8 << 20
	return int(min(max(debug.SetMemoryLimit(-1)/150, least), most))
}

// inputExcess is what reads of the input may take beyond what they ask for, all tasks together, where single batches unpack to
// more than that: a quarter of what the heap may take (D15).
func inputExcess() int64 {
	const least, most = 16 << 20, 256 << 20
	return min(max(debug.SetMemoryLimit(-1)/4, least), most)
}

// room tells whether the state may still grow: more is what a task is about to add. The error stops the task before it
// folds or loads anything, so that its position stays (section 6, R30).
func (b *board) room(op string, more int64) error {
	used, limit := b.app.used.Load(), b.app.here.Load().limit
	if used+more < limit.bytes {
		return nil
	}
	o := b.app.options
	return &kafka.Error{Class: kafka.ClassPermanent, Op: op, Topic: o.Changelog.Topic, Partition: b.partition, Offset: -1,
		Err: fmt.Errorf("the state of this process takes %d bytes and is to grow by %d, state.max_bytes is %d (%s)", used, more, limit.bytes, limit.from),
		Hint: "nothing is lost: give the process more memory and raise state.max_bytes, share the partitions among more processes, " +
			"or keep the state on disk with store: disk, in a version that has it"}
}
