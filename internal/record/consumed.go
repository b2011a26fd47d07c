package record

// Header is one record header. Value is owned by whoever made it and is not modified.
type Header struct {
	Key   string
	Value []byte
}

// HeaderOf is the value of the header of a name, the last one where there are several; nil for none.
func HeaderOf(headers []Header, name string) []byte {
	for i := len(headers) - 1; i >= 0; i-- {
		if headers[i].Key == name {
			return headers[i].Value
		}
	}
	return nil
}

// Consumed is one delivered record, of any topic. Key, Value and Headers belong to the fetch that delivered it: they
// stay valid as long as they are referenced and nobody modifies them.
type Consumed struct {
	Offset    int64
	Epoch     int32 // leader epoch, -1 unknown
	Timestamp int64 // ms since the epoch; -1 when the record has none
	Key       []byte
	Value     []byte
	Headers   []Header
}
