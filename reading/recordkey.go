package reading

// AppendRecordKey appends the record key that input must carry to be partitioned by these fields: one field is its text,
// several are a compact JSON array of strings in the order given. A field is what [Reading.Key] holds, so a number is
// its JSON token.
//
// A string is escaped as little as JSON allows: quote, backslash and control characters, these as \b \f \n \r \t or as
// \u00xx in small letters. Producers that write keys of their own must do the same, for keys are compared byte by byte.
func AppendRecordKey(dst []byte, fields [][]byte) []byte {
	if len(fields) == 1 {
		return append(dst, fields[0]...)
	}
	for i, field := range fields {
		separator := byte(',')
		if i == 0 {
			separator = '['
		}
		dst = appendText(append(dst, separator), field)
	}
	return append(dst, ']')
}

// appendText appends a JSON string.
func appendText(dst, text []byte) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= ' ':
			dst = append(dst, c)
		case shortEscapes[c] != 0:
			dst = append(dst, '\\', shortEscapes[c])
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
	}
	return append(dst, '"')
}

// shortEscapes are the letters of the control characters that JSON has a letter for.
var shortEscapes = [' ']byte{'\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}
