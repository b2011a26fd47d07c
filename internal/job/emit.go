package job

import (
	"github.com/tidemark-streams/tidemark/internal/task"
	"github.com/tidemark-streams/tidemark/window"
)

// A Job tells updates, and its windows can be closed by silence.
var (
	_ task.Updater = (*Job)(nil)
	_ task.Ticker  = (*Job)(nil)
)

// Close emits the final result of a due entry: the only one for this key and window, ever (I10).
func (j *Job) Close(v *task.View, slot task.Slot, key []byte, place task.Place) error {
	if j.layout.tables[place.Aggregation].memory {
		return nil // a reading that dedup need not remember any more
	}
	return j.emit(v, slot, key, place, true)
}

// Update emits how an entry stands. A session that was merged away takes back what was told of it.
//
// Of an aggregation with current values the last record of a key is to stand for its newest window, so nothing is told
// of a window while the key has a newer one, nor of one that has become a part of another. Final results alone need no
// such care: the windows of a key close in the order of time.
func (j *Job) Update(v *task.View, slot task.Slot, key []byte, place task.Place, gone bool) error {
	if !gone {
		return j.emit(v, slot, key, place, false)
	}
	if j.config.Aggregations[place.Aggregation].Current {
		return nil
	}
	t := &j.layout.tables[place.Aggregation]
	j.key = t.appendResultKey(j.key[:0], key)
	j.value = t.appendMerged(j.value[:0], key, window.Span{Start: place.Start, End: place.End})
	v.Emit(task.SinkResult, place.Aggregation, j.key, j.value, nil)
	return nil
}

func (j *Job) emit(v *task.View, slot task.Slot, key []byte, place task.Place, final bool) error {
	a, t := &j.config.Aggregations[place.Aggregation], &j.layout.tables[place.Aggregation]
	if a.Current && a.Updates {
		_, newer, err := v.Around(key[:len(key)-startBytes], place.Start)
		if err != nil || newer.Aggregation != task.Removed {
			return err
		}
	}
	j.key = t.appendResultKey(j.key[:0], key)
	j.value = t.appendResult(j.value[:0], key, window.Span{Start: place.Start, End: place.End}, j.accumulatorsOf(slot), final)
	v.Emit(task.SinkResult, place.Aggregation, j.key, j.value, nil)
	return nil
}
