package record

// ChangelogPosition is the offset of a changelog partition to read next: everything below it is accounted for.
// Zero is a valid position (the beginning); NoChangelog means that there is none.
type ChangelogPosition int64

// InputPosition is the offset of an input partition to read next. Zero is a valid position; NoInput means none.
type InputPosition int64

// Count is a number of records or entries.
type Count int64

// Bytes is a number of bytes.
type Bytes int64

// Positions that stand for "none". They are not zero: offset 0 is a valid position.
const (
	NoChangelog ChangelogPosition = -1
	NoInput     InputPosition     = -1
)
