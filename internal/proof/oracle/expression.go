package oracle

import (
	"encoding/hex"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Expressions are a part of Go's: Go's own parser reads them here. A value is a float64, a string, a bool, nil for what
// is absent or null, and wrong for what cannot be computed.

type wrong struct{}

var word = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|[A-Za-z_][A-Za-z0-9_.]*")

// parsed reads an expression. A path with a word that Go has for itself, such as type, is put in backquotes first.
func parsed(text string) ast.Expr {
	text = word.ReplaceAllStringFunc(text, func(w string) string {
		if w[0] != '"' && w[0] != '`' && slices.ContainsFunc(strings.Split(w, "."), token.IsKeyword) {
			return "`" + w + "`"
		}
		return w
	})
	e, err := parser.ParseExpr(text)
	if err != nil {
		panic(err)
	}
	return e
}

// pathOf is the path that an expression is, if it is one.
func pathOf(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name, e.Name != "true" && e.Name != "false"
	case *ast.SelectorExpr:
		before, ok := pathOf(e.X)
		return before + "." + e.Sel.Name, ok
	case *ast.BasicLit:
		return strings.Trim(e.Value, "`"), e.Kind == token.STRING && e.Value[0] == '`'
	}
	return "", false
}

// pathsOf are all paths of an expression.
func pathsOf(text string) (all []string) {
	ast.Inspect(parsed(text), func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			for _, arg := range call.Args {
				ast.Inspect(arg, func(n ast.Node) bool { return collect(n, &all) })
			}
			return false
		}
		return collect(n, &all)
	})
	return all
}

func collect(n ast.Node, all *[]string) bool {
	if e, ok := n.(ast.Expr); ok {
		if path, ok := pathOf(e); ok {
			*all = append(*all, path)
			return false
		}
	}
	return true
}

func (s *scene) truth(text string) bool {
	v, _ := s.evaluate(text, 0).(bool)
	return v
}

// evaluate computes an expression; x is what a conversion is given.
func (s *scene) evaluate(text string, x float64) any { return s.node(parsed(text), x) }

func (s *scene) node(e ast.Expr, x float64) any {
	if path, ok := pathOf(e); ok {
		if s.given {
			return x
		}
		return s.field(path)
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		return s.node(e.X, x)
	case *ast.Ident:
		return e.Name == "true"
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ := strconv.Unquote(e.Value)
			return text
		}
		v, _ := strconv.ParseFloat(e.Value, 64)
		return v
	case *ast.UnaryExpr:
		v := s.node(e.X, x)
		if e.Op == token.NOT {
			return v != true
		}
		if n, ok := v.(float64); ok {
			return -n
		}
		return unfit(v)
	case *ast.BinaryExpr:
		return s.binary(e, x)
	case *ast.CallExpr:
		return s.call(e, x)
	}
	panic("an expression that is none")
}

func (s *scene) field(path string) any {
	switch v := s.value(path); v.kind {
	case '.', 'n':
		return nil
	case 't', 'f':
		return v.kind == 't'
	case '"':
		return v.text
	case '0':
		n, _ := strconv.ParseFloat(v.text, 64)
		s.inexact = s.inexact || inexact(n, v.text)
		return n
	}
	return wrong{}
}

// unfit is what comes of computing with something that is no number.
func unfit(v any) any {
	if v == nil {
		return nil
	}
	return wrong{}
}

func (s *scene) binary(e *ast.BinaryExpr, x float64) any {
	a, b := s.node(e.X, x), s.node(e.Y, x)
	switch e.Op {
	case token.LAND:
		return a == true && b == true
	case token.LOR:
		return a == true || b == true
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
		return compared(e.Op, a, b)
	}
	n, isNumber := a.(float64)
	if !isNumber {
		return unfit(a)
	}
	m, isNumber := b.(float64)
	if !isNumber {
		return unfit(b)
	}
	switch e.Op {
	case token.ADD:
		return n + m
	case token.SUB:
		return n - m
	case token.MUL:
		return n * m
	}
	return n / m
}

func compared(op token.Token, a, b any) bool {
	order := 2 // of two that have none
	switch a := a.(type) {
	case float64:
		if b, ok := b.(float64); ok {
			for i, is := range []bool{a < b, a == b, a > b} {
				if is {
					order = i - 1
				}
			}
		}
	case string:
		if b, ok := b.(string); ok {
			order = strings.Compare(a, b)
		}
	case bool:
		if op == token.EQL || op == token.NEQ {
			return (op == token.EQL) == (a == b)
		}
	}
	switch op {
	case token.EQL:
		return order == 0
	case token.NEQ:
		return order != 0
	case token.LSS:
		return order == -1
	case token.LEQ:
		return order == -1 || order == 0
	case token.GTR:
		return order == 1
	}
	return order == 0 || order == 1
}

func (s *scene) call(e *ast.CallExpr, x float64) any {
	name := e.Fun.(*ast.Ident).Name
	v := s.node(e.Args[0], x)
	if name == "has" {
		return v != nil
	}
	if strings.Contains(name, "int_") {
		return bytesIn(name, v, e.Args[1:])
	}
	if text, ok := v.(string); ok && name == "number" {
		n, ok := written(text, false)
		if !ok {
			return wrong{}
		}
		token, _ := writtenToken(text, false)
		s.inexact = s.inexact || inexact(n, token)
		return n
	}
	n, ok := v.(float64)
	if !ok {
		return unfit(v)
	}
	switch name {
	case "number":
		return n
	case "abs":
		return math.Abs(n)
	}
	m, ok := s.node(e.Args[1], x).(float64)
	if !ok {
		return unfit(s.node(e.Args[1], x))
	}
	if name == "min" {
		return math.Min(n, m)
	}
	return math.Max(n, m)
}

// bytesIn is a whole number out of bytes that are written in hexadecimal digits.
func bytesIn(name string, v any, args []ast.Expr) any {
	text, ok := v.(string)
	at, _ := strconv.Atoi(args[0].(*ast.BasicLit).Value)
	size, _ := strconv.Atoi(args[1].(*ast.BasicLit).Value)
	if !ok || len(text) < 2*(at+size) {
		return unfit(v)
	}
	b, err := hex.DecodeString(text[2*at : 2*(at+size)])
	if err != nil {
		return wrong{}
	}
	if strings.HasSuffix(name, "_le") {
		slices.Reverse(b)
	}
	n := new(big.Int).SetBytes(b)
	if name[0] == 'i' && b[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	f, _ := new(big.Float).SetInt(n).Float64()
	return f
}
