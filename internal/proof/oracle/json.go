package oracle

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Fault is one thing that is wrong with a record. A record may have several; which of them tidemark names is its own
// affair, but it must be one of these.
type Fault string

// The faults a record can have.
const (
	FaultEmpty          Fault = "empty"           // no value, or a value of no bytes
	FaultJSON           Fault = "json"            // not exactly one JSON object
	FaultUTF8           Fault = "utf8"            // bytes or escapes that are no text
	FaultDuplicate      Fault = "duplicate"       // a name twice in one object, at any level
	FaultDepth          Fault = "depth"           // containers nested too deep
	FaultNames          Fault = "names"           // more names in open objects than Config.Names
	FaultKey            Fault = "key"             // a key field that is absent, null, empty, or neither text nor number
	FaultValue          Fault = "value"           // a value field that is absent, null, no number or not finite
	FaultTime           Fault = "time"            // a time field that is absent, null or no time in its unit
	FaultImplausible    Fault = "implausible"     // before Config.Min or outside the years 0 to 9999
	FaultFuture         Fault = "future"          // later than the record by more than Config.MaxAhead
	FaultItems          Fault = "items"           // what should hold readings is no array or object
	FaultRange          Fault = "range"           // a value outside of its plausible range
	FaultWrongKey       Fault = "wrong_key"       // the record key is not the one that the fields make
	FaultWrongPartition Fault = "wrong_partition" // not where the partitioner puts that key
)

// member is the top-level value of one field: its raw token, and its text when it is a JSON string.
type member struct {
	raw  json.RawMessage
	text *string
}

// object reads a record's value as one strict JSON object with exact names. Of the names, those of the configured
// fields do not count against the limit.
func (c *Config) object(value []byte) (map[string]member, []Fault) {
	if faults := c.document(value); faults != nil {
		return nil, faults
	}
	return members(value), nil
}

// document says what is wrong with a record's value as a document.
func (c *Config) document(value []byte) []Fault {
	if len(value) == 0 {
		return []Fault{FaultEmpty}
	}
	var faults []Fault
	if !utf8.Valid(value) || loneSurrogate(value) {
		faults = append(faults, FaultUTF8)
	}
	if nesting(value) > c.Depth {
		faults = append(faults, FaultDepth)
	}
	if !json.Valid(value) || c.Shape == nil && bytes.TrimLeft(value, " \t\r\n")[0] != '{' {
		faults = append(faults, FaultJSON)
	}
	if f := c.judgeNames(value); f != "" {
		faults = append(faults, f)
	}
	return faults
}

// members takes the top level of a valid object without duplicates apart. A map of raw messages keeps names exact:
// encoding/json folds letter case for struct fields only (C07).
func members(value []byte) map[string]member {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(value, &raw); err != nil {
		panic("valid JSON does not unmarshal: " + err.Error())
	}
	out := make(map[string]member, len(raw))
	for name, token := range raw {
		m := member{raw: token}
		if token[0] == '"' {
			var text string
			if err := json.Unmarshal(token, &text); err != nil {
				panic("valid JSON string does not unmarshal: " + err.Error())
			}
			m.text = &text
		}
		out[name] = m
	}
	return out
}

// level is one open container.
type level struct {
	names  map[string]bool // nil for an array
	isName bool            // whether the next token is a name
}

// judgeNames walks over a document token by token, as far as it is JSON, and returns the first fault of a name: there
// already in its object, or one too many.
func (c *Config) judgeNames(value []byte) Fault {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	configured := append(append([]string{c.Time.Name}, c.Key...), c.Values...)
	var stack []level
	open := 0
	for {
		token, err := decoder.Token()
		if err != nil {
			return "" // the end, or broken JSON, which is found elsewhere
		}
		top := len(stack) - 1
		if name, ok := token.(string); ok && top >= 0 && stack[top].isName {
			if stack[top].names[name] {
				return FaultDuplicate
			}
			stack[top].names[name], stack[top].isName = true, false
			if top > 0 || !slices.Contains(configured, name) {
				open++
			}
			if open > c.Names {
				return FaultNames
			}
			continue
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, level{names: map[string]bool{}, isName: true})
			continue
		case json.Delim('['):
			stack = append(stack, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			open -= len(stack[top].names) // too many at the outermost level, but nothing follows that
			stack = stack[:top]
			top--
		}
		if top >= 0 && stack[top].names != nil {
			stack[top].isName = true // a value has ended
		}
	}
}

// nesting is the greatest number of containers within one another, counted over brackets outside strings.
func nesting(value []byte) int {
	deepest, now, inString := 0, 0, false
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// loneSurrogate tells whether an escape names half a character. encoding/json would put U+FFFD there, and two devices
// would become one (C08).
func loneSurrogate(value []byte) bool {
	unit := func(i int) (uint64, bool) {
		if i+6 > len(value) || value[i] != '\\' || value[i+1] != 'u' {
			return 0, false
		}
		u, err := strconv.ParseUint(string(value[i+2:i+6]), 16, 16)
		return u, err == nil
	}
	for i := 0; i < len(value); i++ {
		if value[i] != '\\' {
			continue
		}
		u, ok := unit(i)
		switch {
		case !ok:
			i++
		case u >= 0xDC00 && u <= 0xDFFF:
			return true
		case u >= 0xD800 && u <= 0xDBFF:
			if low, ok := unit(i + 6); !ok || low < 0xDC00 || low > 0xDFFF {
				return true
			}
			i += 11
		default:
			i += 5
		}
	}
	return false
}
