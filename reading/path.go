package reading

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A path leads from a document or an item to a field:
//
//	ENERGY.Power     the member Power of the member ENERGY
//	emeters.0.power  a whole number is the element of an array, or the member of that name
//	.                the item itself
//	$.esp8266id      from the document, where a plain path begins at the item; $ alone is the document
//	a\.b             a backslash takes the character after it as it is: one member called a.b
//
// Without items the item is the document, so that both beginnings mean the same.

// path is a path taken apart.
type path struct {
	document bool     // begins at the document
	names    []string // unescaped
	stars    []bool   // parallel to names: any member or element
}

// parsePath takes a path apart. Stars are steps of each only.
func parsePath(text string, each bool) (path, error) {
	var p path
	switch {
	case text == "":
		return p, fmt.Errorf("the path of a field is empty")
	case !utf8.ValidString(text):
		return p, fmt.Errorf("path %q is not valid UTF-8", text)
	case text == ".":
		return p, nil
	case text == "$":
		return path{document: true}, nil
	}
	rest, found := strings.CutPrefix(text, "$.")
	p.document = found
	for more := true; more; {
		var name string
		var star bool
		var err error
		if name, star, rest, more, err = step(rest); err != nil {
			return p, fmt.Errorf("path %q: %w", text, err)
		}
		if star && !each {
			return p, fmt.Errorf("path %q: * stands in each only; a member of that name is \\*", text)
		}
		p.names, p.stars = append(p.names, name), append(p.stars, star)
	}
	return p, nil
}

// step takes the first step off a path and tells whether more follow.
func step(text string) (name string, star bool, rest string, more bool, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i++; i == len(text) {
				return "", false, "", false, fmt.Errorf("a backslash at its end; write \\\\ for one in a name")
			}
		case '.':
			if i == 0 {
				return "", false, "", false, fmt.Errorf("a step is empty; in a name write \\. for a dot")
			}
			return b.String(), text[:i] == "*", text[i+1:], true, nil
		}
		b.WriteByte(text[i])
	}
	if text == "" {
		return "", false, "", false, fmt.Errorf("a step is empty; in a name write \\. for a dot")
	}
	return b.String(), text == "*", "", false, nil
}

// where says where the path is in words for keys of a map: paths that lead to the same field are equal.
func (p *path) where() string {
	var b strings.Builder
	b.WriteString(strconv.FormatBool(p.document))
	for i, name := range p.names {
		fmt.Fprintf(&b, " %q%v", name, p.stars[i])
	}
	return b.String()
}

// element is the index that a step means in an array, -1 for none.
func element(name string) int {
	n, err := strconv.Atoi(name)
	if err != nil || n < 0 || strconv.Itoa(n) != name {
		return -1
	}
	return n
}

// tree is a set of paths with a common beginning.
type tree struct {
	root     *branch
	branches []*branch
	whole    int // the field that is the beginning itself, failed for none
}

// branch is an object or an array on the way to configured fields.
type branch struct {
	wanted []wanted
	last   int   // the wanted name met last, failed for none
	after  []int // at last + 1: the name that came next in the documents before, for those of one source are alike

	label string // its path, for refusals
	start int    // where it is in the document
	kind  kind   // absent until it is met

	items   bool      // members and elements that are not wanted by name are items
	star    *branch   // or where they lead
	gate    *branch   // of the root and of stars: the branch at the end of the names that follow, which must be there
	subtree []*branch // of stars: the branches below, which are met again in each member or element
}

func newTree() tree {
	t := tree{root: &branch{last: failed, after: []int{0}}, whole: failed}
	t.branches = []*branch{t.root}
	return t
}

// add leads a path to a field. It fails where one field would lie inside another.
func (t *tree) add(p *path, label string, field int) error {
	if len(p.names) == 0 {
		t.whole = field
		if len(t.root.wanted) > 0 {
			return fmt.Errorf("%q holds other fields that are configured; a field is a text or a number", label)
		}
		return nil
	}
	b := t.root
	if t.whole != failed {
		return fmt.Errorf("%q lies inside a field that is configured as a whole", label)
	}
	for i, name := range p.names {
		w := b.want(name)
		last := i == len(p.names)-1
		switch {
		case last && w.below != nil:
			return fmt.Errorf("%q holds other fields that are configured; a field is a text or a number", label)
		case !last && w.field != failed:
			return fmt.Errorf("%q lies inside another field that is configured", label)
		case last:
			w.field = field
		case w.below == nil:
			w.below = t.branch(strings.Join(p.names[:i+1], "."))
		}
		b = w.below
	}
	return nil
}

func (t *tree) branch(label string) *branch {
	b := &branch{last: failed, after: []int{0}, label: label}
	t.branches = append(t.branches, b)
	return b
}

// lead makes items of the members and elements of what is at the end of a path, which may have stars.
func (t *tree) lead(p *path, label string) error {
	if t.whole != failed {
		return fmt.Errorf("%q lies inside a field that is configured as a whole", label)
	}
	b, gate := t.root, t.root
	gate.gate = gate
	var stars []*branch
	for i, name := range p.names {
		var below *branch
		if p.stars[i] {
			if slices.ContainsFunc(b.wanted, func(w wanted) bool { return w.element != failed }) {
				return fmt.Errorf("%q stands for an element that another path leads to", label)
			}
			below = t.branch(label)
			below.gate, b.star, gate = below, below, below
		} else {
			w := b.want(name)
			if w.field != failed {
				return fmt.Errorf("%q is a field, or lies inside one", label)
			}
			if w.below == nil {
				w.below = t.branch(strings.Join(p.names[:i+1], "."))
			}
			below, gate.gate = w.below, w.below
		}
		for _, star := range stars {
			star.subtree = append(star.subtree, below)
		}
		if p.stars[i] {
			stars = append(stars, below)
		}
		b = below
	}
	b.items = true
	return nil
}

// want returns the wanted name of a branch, made if need be.
func (b *branch) want(name string) *wanted {
	if i := slices.IndexFunc(b.wanted, func(w wanted) bool { return w.name == name }); i >= 0 {
		return &b.wanted[i]
	}
	b.wanted = append(b.wanted, newWanted(name))
	b.after = append(b.after, 0)
	for i := range b.after {
		b.after[i] = min(i, len(b.wanted)-1)
	}
	return &b.wanted[len(b.wanted)-1]
}

// forget makes the tree ready for another scan.
func (t *tree) forget() {
	for _, b := range t.branches {
		b.last, b.kind = failed, kindAbsent
	}
}
