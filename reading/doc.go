// Package reading turns the bytes of one record into a reading, or into a refusal that says why not and where. It is
// pure: what it returns depends on the bytes, the record's timestamp and the [Format] only (I11), and it does no I/O.
//
// # JSON
//
// The grammar is that of RFC 8259, all of it, and stricter where RFC 8259 leaves room:
//
//   - one document a record; nothing but white space may follow it, and no byte order mark may precede it;
//   - names are compared exactly, after decoding escapes, and no object, nested ones included, has the same name twice;
//   - every string, also one that is skipped, is valid UTF-8, without control characters and without lone surrogates;
//   - objects and arrays nest at most [MaxDepth] deep, the outermost object counted as 1;
//   - the objects open at any one place hold at most [MaxNames] names besides the configured ones.
//
// Fields that are not configured are held to the grammar and never judged otherwise: an unused 1e999 does no harm.
//
// # Fields
//
// A path leads to a field: ENERGY.Power is the member Power of the member ENERGY, emeters.0.power goes through the first
// element of an array, and a backslash takes the character behind it as it is, so that a\.b is one member called a.b.
// Absent, null and a value of another type are three refusals and never a zero.
//
// A key field is a text or a number. A text is decoded and never normalised, so two ways of writing é are two keys. A
// number is its JSON token as it stands, so 5 and 5.0 are two keys while 5 and "5" are one. An empty text is refused:
// one group of all devices without a name is a wrong number that nothing notices. A key field may also come from the
// record's key, a header, a member's name or the configuration, and be a part of such a text: see [Part].
//
// A value is a number, and becomes the double nearest to it. A number beyond the doubles is refused, one below them
// becomes zero with its sign. The minus of -0 is kept. With [Format.Whole] it is a whole number of 64 bits
// instead, of which nothing is lost, and any other is refused. Whatever else a device may send is an option of [Number].
//
// # Readings
//
// A record is one reading, or with [Format.Each] one for each member of an object or array, the items. Paths then begin
// at the item, and those that begin with $. at the document. Members of an object that another path leads to by their
// name are no items; elements of an array always are. With [Format.Series] each value is a reading of its own. Readings are judged one by one: one that is refused
// does not touch the others, but a fault of the grammar, wherever it is, refuses the record.
//
// # Time
//
// A time in s, ms, us or ns is a number of any form (1704067201.5, 1.7040672015e9), taken exactly; what lies below the
// nanosecond is cut off towards the past. A time in rfc3339 is a text as in RFC 3339 section 5.6: T and Z may be small
// letters, a blank in place of T is refused, the fraction has 1 to 9 digits, the zone is required, -00:00 is UTC, and
// second 60 stands at 23:59:60 UTC only and is the second after it, as in Unix time. Other ways of writing a time are
// those of iso8601 and of layouts; a text without a zone is read in [Clock.Zone], where a local time that comes twice is
// the first of the two and one that the zone skips is refused.
//
// A time outside the years 0 to 9999 or before [Format.Min] is implausible, and the refusal names the unit the number
// looks like. A time later than the record's own timestamp by more than [Format.MaxAhead] is refused as future. A record
// timestamp before Min, or a negative one, counts as absent, and without one nothing is future.
//
// # Order of judgement
//
// The document comes first: the first fault in byte order is the one reported. Then, for each reading, the condition of
// [Format.Where], the key fields, the time, the values, each list in the order configured.
package reading
