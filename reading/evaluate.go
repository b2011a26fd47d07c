package reading

import (
	"bytes"
	"math"
)

// holds evaluates a condition.
func (s *scanner) holds(n *node) bool {
	o := s.evaluate(n, 0)
	return o.kind == kindBool && o.truth
}

// evaluate computes a node; x is what convert is given.
func (s *scanner) evaluate(n *node, x float64) operand {
	switch n.op {
	case opNumber:
		return operand{kind: kindNumber, number: n.number}
	case opText:
		return operand{kind: kindText, text: n.text}
	case opBool:
		return truth(n.truth)
	case opField:
		return s.operandOf(n.field)
	case opGiven:
		return operand{kind: kindNumber, number: x}
	case opOr:
		return truth(s.true(n.left, x) || s.true(n.right, x))
	case opAnd:
		return truth(s.true(n.left, x) && s.true(n.right, x))
	case opNot:
		return truth(!s.true(n.left, x))
	case opHas:
		kind := s.fields[n.left.field].kind
		return truth(kind != kindAbsent && kind != kindNull)
	case opEqual, opUnequal, opLess, opLessEqual, opGreater, opGreaterEqual:
		return truth(s.compares(n, x))
	case opParse:
		return s.parsed(s.evaluate(n.left, x))
	case opBytes:
		return n.bytes.of(s.evaluate(n.left, x))
	}
	return s.compute(n, x)
}

func truth(v bool) operand { return operand{kind: kindBool, truth: v} }

func (s *scanner) true(n *node, x float64) bool {
	o := s.evaluate(n, x)
	return o.kind == kindBool && o.truth
}

// operandOf is what a field holds. A number beyond the doubles is infinite.
func (s *scanner) operandOf(i int) operand {
	f := &s.fields[i]
	o := operand{kind: f.kind, field: i}
	switch f.kind {
	case kindNumber:
		o.number, _ = f.num.float(s.data[f.start:f.end])
		s.noteRounding(o.number, s.data[f.start:f.end])
	case kindText:
		o.text = s.fieldText(f)
	case kindBool:
		o.truth = s.data[f.start] == 't'
	}
	return o
}

// compares carries out a comparison.
func (s *scanner) compares(n *node, x float64) bool {
	a, b := s.evaluate(n.left, x), s.evaluate(n.right, x)
	if a.kind != b.kind || a.kind != kindNumber && a.kind != kindText && a.kind != kindBool {
		return n.op == opUnequal
	}
	if a.kind == kindNumber {
		switch n.op {
		case opEqual:
			return a.number == b.number
		case opUnequal:
			return a.number != b.number
		case opLess:
			return a.number < b.number
		case opLessEqual:
			return a.number <= b.number
		case opGreater:
			return a.number > b.number
		}
		return a.number >= b.number
	}
	order := 0
	if a.kind == kindText {
		order = bytes.Compare(a.text, b.text)
	} else if a.truth != b.truth {
		order = 1
	}
	switch n.op {
	case opEqual:
		return order == 0
	case opUnequal:
		return order != 0
	}
	if a.kind == kindBool {
		return false
	}
	switch n.op {
	case opLess:
		return order < 0
	case opLessEqual:
		return order <= 0
	case opGreater:
		return order > 0
	}
	return order >= 0
}

// compute carries out arithmetic. The conversions forbid the compiler to fuse two operations (I11).
func (s *scanner) compute(n *node, x float64) operand {
	a := s.evaluate(n.left, x)
	if a.kind != kindNumber {
		return nothing(a)
	}
	var b operand
	if n.right != nil {
		if b = s.evaluate(n.right, x); b.kind != kindNumber {
			return nothing(b)
		}
	}
	v := a.number
	switch n.op {
	case opPlus:
		v = float64(v + b.number)
	case opMinus:
		v = float64(v - b.number)
	case opTimes:
		v = float64(v * b.number)
	case opDivide:
		v = float64(v / b.number)
	case opNegate:
		v = -v
	case opAbs:
		v = math.Abs(v)
	case opLeast:
		v = min(v, b.number)
	case opMost:
		v = max(v, b.number)
	}
	return operand{kind: kindNumber, number: v}
}

// nothing is what comes of computing with something that is no number. The field to blame goes along, and the kind that
// is not a number's: of a truth value or a text that no field holds, there is no such thing in a checked expression.
func nothing(o operand) operand {
	if o.kind == kindText || o.kind == kindBool || o.kind == kindObject || o.kind == kindArray {
		o.truth, o.text = false, nil
		o.kind = kindArray // neither compared nor true, and not missing
	}
	return o
}

// parsed is the number that a text holds; a number is itself.
func (s *scanner) parsed(o operand) operand {
	switch o.kind {
	case kindNumber:
		return o
	case kindText:
		if v, ok := s.textNumber(o.text, false); ok {
			return operand{kind: kindNumber, number: v}
		}
	}
	return nothing(o)
}

// maxHex bounds the place of bytes in a text of hexadecimal digits.
const maxHex = 1 << 16

// bytesOf reads a whole number out of bytes that a text holds as hexadecimal digits.
type bytesOf struct {
	at, size       int
	signed, little bool
}

func (b bytesOf) of(o operand) operand {
	if o.kind != kindText || len(o.text) < 2*(b.at+b.size) {
		return nothing(o)
	}
	var v int64
	for i := range b.size {
		at := b.at + i
		if b.little {
			at = b.at + b.size - 1 - i
		}
		high, low := hexDigit(o.text[2*at]), hexDigit(o.text[2*at+1])
		if high < 0 || low < 0 {
			return nothing(o)
		}
		v = v<<8 | int64(high<<4|low)
	}
	if shift := 64 - 8*b.size; b.signed {
		v = v << shift >> shift
	}
	return operand{kind: kindNumber, number: float64(v)}
}
