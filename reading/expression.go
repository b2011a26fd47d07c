package reading

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// An expression computes a value or decides about a reading. Its grammar is a part of Go's, so that nobody has to learn
// one:
//
//	literals    12  1.5e3  "text"  true  false          numbers as in JSON; in texts \" and \\ are the only escapes
//	fields      ENERGY.Power  `temp-C`  `$.site`        a path; in backquotes when it is not made of words and dots
//	operators   ||  &&  == != < <= > >=  + -  * /  ! -  binding as in Go, comparisons not in a row
//	functions   abs(x) min(x, y) max(x, y) number(t) has(f) int_be(t, at, n) uint_be(t, at, n) int_le(t, at, n) uint_le(t, at, n)
//
// Numbers are doubles, each operation rounded by itself, so that every machine computes the same (I11). A comparison of
// two things that are not of one type, or of a field that is absent or null, is false, and so is < between truth
// values; != is true then. A field that is no truth value counts as false where a truth value is due. Arithmetic with
// anything but numbers has no result.

// maxExpression bounds the text of an expression, and with it its depth.
const maxExpression = 1024

// operation is what a node of an expression does.
type operation uint8

const (
	opNumber operation = iota
	opText
	opBool
	opField
	opGiven // x, the number that convert is given
	opOr
	opAnd
	opNot
	opEqual
	opUnequal
	opLess
	opLessEqual
	opGreater
	opGreaterEqual
	opPlus
	opMinus
	opTimes
	opDivide
	opNegate
	opAbs
	opLeast
	opMost
	opParse
	opHas
	opBytes
)

// node is a part of an expression.
type node struct {
	op    operation
	left  *node
	right *node
	kind  kind // of what it gives: a number, a text, a boolean; kindAbsent for a field, which may be anything

	number float64
	text   []byte
	truth  bool
	field  int
	bytes  bytesOf
}

// operand is what a node gives. kindAbsent and kindNull stand for nothing.
type operand struct {
	kind   kind
	truth  bool
	number float64
	text   []byte
	field  int // when it is nothing, or not what was wanted: the field that is to blame
}

// parser reads an expression.
type parser struct {
	text    string
	p       int
	resolve func(path string) (field int, err error)
	given   bool // x may be used
	err     error
}

// parseExpression reads an expression whose result has a kind.
func parseExpression(text string, result kind, given bool, resolve func(path string) (int, error)) (*node, error) {
	if len(text) > maxExpression {
		return nil, fmt.Errorf("the expression has %d bytes, at most %d are possible", len(text), maxExpression)
	}
	ps := &parser{text: text, resolve: resolve, given: given}
	n := ps.or()
	if ps.blanks(); ps.err == nil && ps.p < len(text) {
		hint := ""
		if text[ps.p] == '=' {
			hint = "; what is equal is written with =="
		}
		ps.fail("unexpected %q%s", text[ps.p:], hint)
	}
	if ps.err == nil {
		ps.demand(n, result, "the result")
	}
	if ps.err != nil {
		return nil, fmt.Errorf("expression %q, at %d: %w", text, ps.p, ps.err)
	}
	return n, nil
}

func (ps *parser) fail(format string, args ...any) *node {
	if ps.err == nil {
		ps.err = fmt.Errorf(format, args...)
	}
	return &node{}
}

// demand checks that a node can give a kind.
func (ps *parser) demand(n *node, want kind, what string) {
	if n.kind != kindAbsent && n.kind != want {
		ps.fail("%s is %s, want %s", what, kindNames[n.kind], kindNames[want])
	}
}

func (ps *parser) blanks() {
	for ps.p < len(ps.text) && ps.text[ps.p] == ' ' {
		ps.p++
	}
}

// takes tells whether one of the operators comes next, and takes it; longer ones are listed first.
func (ps *parser) takes(operators ...string) string {
	ps.blanks()
	for _, o := range operators {
		if strings.HasPrefix(ps.text[ps.p:], o) && ps.err == nil {
			ps.p += len(o)
			return o
		}
	}
	return ""
}

func (ps *parser) or() *node {
	n := ps.and()
	for ps.takes("||") != "" {
		n = ps.logic(opOr, n, ps.and())
	}
	return n
}

func (ps *parser) and() *node {
	n := ps.comparison()
	for ps.takes("&&") != "" {
		n = ps.logic(opAnd, n, ps.comparison())
	}
	return n
}

func (ps *parser) logic(op operation, left, right *node) *node {
	ps.demand(left, kindBool, "what stands before && or ||")
	ps.demand(right, kindBool, "what stands after && or ||")
	return &node{op: op, left: left, right: right, kind: kindBool}
}

var comparisons = map[string]operation{"==": opEqual, "!=": opUnequal, "<": opLess, "<=": opLessEqual, ">": opGreater, ">=": opGreaterEqual}

func (ps *parser) comparison() *node {
	n := ps.sum()
	o := ps.takes("==", "!=", "<=", ">=", "<", ">")
	if o == "" {
		return n
	}
	right := ps.sum()
	if n.kind != kindAbsent && right.kind != kindAbsent && n.kind != right.kind {
		return ps.fail("%s is compared with %s", kindNames[n.kind], kindNames[right.kind])
	}
	if o[0] != '=' && o[0] != '!' && (n.kind == kindBool || right.kind == kindBool) {
		return ps.fail("%s between truth values", o)
	}
	if again := ps.takes("==", "!=", "<=", ">=", "<", ">"); again != "" {
		return ps.fail("comparisons in a row; use && and parentheses")
	}
	return &node{op: comparisons[o], left: n, right: right, kind: kindBool}
}

func (ps *parser) sum() *node {
	n := ps.product()
	for {
		switch ps.takes("+", "-") {
		case "+":
			n = ps.arithmetic(opPlus, n, ps.product())
		case "-":
			n = ps.arithmetic(opMinus, n, ps.product())
		default:
			return n
		}
	}
}

func (ps *parser) product() *node {
	n := ps.unary()
	for {
		switch ps.takes("*", "/") {
		case "*":
			n = ps.arithmetic(opTimes, n, ps.unary())
		case "/":
			n = ps.arithmetic(opDivide, n, ps.unary())
		default:
			return n
		}
	}
}

func (ps *parser) arithmetic(op operation, left, right *node) *node {
	ps.demand(left, kindNumber, "what is computed with")
	ps.demand(right, kindNumber, "what is computed with")
	return &node{op: op, left: left, right: right, kind: kindNumber}
}

func (ps *parser) unary() *node {
	switch ps.takes("!", "-") {
	case "!":
		n := ps.unary()
		ps.demand(n, kindBool, "what stands after !")
		return &node{op: opNot, left: n, kind: kindBool}
	case "-":
		n := ps.unary()
		ps.demand(n, kindNumber, "what stands after -")
		return &node{op: opNegate, left: n, kind: kindNumber}
	}
	return ps.primary()
}

func (ps *parser) primary() *node {
	ps.blanks()
	if ps.err != nil || ps.p == len(ps.text) {
		return ps.fail("the expression ends early")
	}
	switch c := ps.text[ps.p]; {
	case c == '(':
		ps.p++
		n := ps.or()
		if ps.takes(")") == "" {
			return ps.fail("want )")
		}
		return n
	case c == '"':
		return ps.literalText()
	case c == '`':
		return ps.quotedPath()
	case '0' <= c && c <= '9':
		return ps.literalNumber()
	case wordByte(c):
		return ps.word()
	}
	return ps.fail("unexpected %q", ps.text[ps.p:ps.p+1])
}

func wordByte(c byte) bool {
	return c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
}

func (ps *parser) literalText() *node {
	var b strings.Builder
	for ps.p++; ps.p < len(ps.text); ps.p++ {
		switch c := ps.text[ps.p]; c {
		case '"':
			ps.p++
			return &node{op: opText, text: []byte(b.String()), kind: kindText}
		case '\\':
			if ps.p++; ps.p == len(ps.text) || ps.text[ps.p] != '"' && ps.text[ps.p] != '\\' {
				return ps.fail(`only \" and \\ are escapes`)
			}
			b.WriteByte(ps.text[ps.p])
		default:
			b.WriteByte(c)
		}
	}
	return ps.fail("a text without its closing quote")
}

func (ps *parser) quotedPath() *node {
	end := strings.IndexByte(ps.text[ps.p+1:], '`')
	if end < 0 {
		return ps.fail("a path without its closing backquote")
	}
	name := ps.text[ps.p+1 : ps.p+1+end]
	ps.p += end + 2
	return ps.fieldNode(name)
}

func (ps *parser) fieldNode(name string) *node {
	i, err := ps.resolve(name)
	if err != nil {
		return ps.fail("%w", err)
	}
	return &node{op: opField, field: i}
}

func (ps *parser) literalNumber() *node {
	size := numberSize(ps.text[ps.p:])
	end := ps.p + max(size, 0)
	if size < 0 || end < len(ps.text) && (wordByte(ps.text[end]) || ps.text[end] == '.') {
		return ps.fail("a number is written as in JSON")
	}
	v, err := strconv.ParseFloat(ps.text[ps.p:end], 64)
	if err != nil {
		return ps.fail("number %s is beyond the range of a double", ps.text[ps.p:end])
	}
	ps.p = end
	return &node{op: opNumber, number: v, kind: kindNumber}
}

// word is true, false, x, a function, or the path of a field made of words.
func (ps *parser) word() *node {
	start := ps.p
	for ps.p < len(ps.text) && (wordByte(ps.text[ps.p]) || ps.text[ps.p] == '.') {
		ps.p++
	}
	switch name := ps.text[start:ps.p]; {
	case ps.takes("(") != "":
		return ps.call(name)
	case name == "true" || name == "false":
		return &node{op: opBool, truth: name == "true", kind: kindBool}
	case name == "x" && ps.given:
		return &node{op: opGiven, kind: kindNumber}
	case ps.given:
		return ps.fail("%q: only x, the number of the field, can be used here", name)
	case badWord(name):
		return ps.fail("%q: a step that begins with a digit puts the whole path in backquotes", name)
	default:
		return ps.fieldNode(name)
	}
}

// badWord tells whether a step of a path begins with a digit.
func badWord(name string) bool {
	for step := range strings.SplitSeq(name, ".") {
		if step != "" && '0' <= step[0] && step[0] <= '9' {
			return true
		}
	}
	return false
}

// The functions with their parameters.
var functions = map[string]struct {
	op         operation
	parameters []kind // kindAbsent for anything, kindNull for a whole number that is written down
	gives      kind
}{
	"abs":     {opAbs, []kind{kindNumber}, kindNumber},
	"min":     {opLeast, []kind{kindNumber, kindNumber}, kindNumber},
	"max":     {opMost, []kind{kindNumber, kindNumber}, kindNumber},
	"number":  {opParse, []kind{kindText}, kindNumber},
	"has":     {opHas, []kind{kindAbsent}, kindBool},
	"int_be":  {opBytes, []kind{kindText, kindNull, kindNull}, kindNumber},
	"uint_be": {opBytes, []kind{kindText, kindNull, kindNull}, kindNumber},
	"int_le":  {opBytes, []kind{kindText, kindNull, kindNull}, kindNumber},
	"uint_le": {opBytes, []kind{kindText, kindNull, kindNull}, kindNumber},
}

// call reads the arguments of a function, whose parenthesis is behind.
func (ps *parser) call(name string) *node {
	f, ok := functions[name]
	if !ok {
		return ps.fail("there is no function %s; want abs, min, max, number, has, int_be, uint_be, int_le or uint_le", name)
	}
	args := make([]*node, 0, 3)
	for i, want := range f.parameters {
		if i > 0 && ps.takes(",") == "" {
			return ps.fail("%s wants %d arguments", name, len(f.parameters))
		}
		n := ps.or()
		switch {
		case want == kindNull && (n.op != opNumber || n.number != math.Trunc(n.number)):
			return ps.fail("argument %d of %s is a whole number, written down", i+1, name)
		case name == "has" && n.op != opField:
			return ps.fail("has wants a field")
		case want == kindNumber || want == kindText:
			ps.demand(n, want, "argument "+strconv.Itoa(i+1)+" of "+name)
		}
		args = append(args, n)
	}
	if ps.takes(")") == "" {
		return ps.fail("%s wants %d arguments and a )", name, len(f.parameters))
	}
	n := &node{op: f.op, left: args[0], kind: f.gives}
	switch {
	case f.op == opBytes:
		n.bytes = bytesOf{at: int(args[1].number), size: int(args[2].number), signed: name[0] == 'i', little: strings.HasSuffix(name, "_le")}
		if n.bytes.at < 0 || n.bytes.at > maxHex || n.bytes.size < 1 || n.bytes.size > 6 {
			return ps.fail("%s reads 1 to 6 bytes from byte 0 to %d on", name, maxHex)
		}
	case len(args) == 2:
		n.right = args[1]
	}
	return n
}
