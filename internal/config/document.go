package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Limits of a file.
const (
	maxFileBytes = 1 << 20
	maxDepth     = 32
)

// kind is what a node of the document holds.
type kind uint8

const (
	kindNull kind = iota
	kindText
	kindNumber
	kindTruth
	kindMap
	kindList
	kindUnits // never of a node: text, or a number whose unit may have been forgotten
)

// String is the kind in words.
func (k kind) String() string {
	return [...]string{"nothing", "text", "a number", "a truth value", "keys", "a list", "a number with its unit"}[k]
}

// node is a part of the document. What the YAML library knows of anchors, tags and styles ends here.
type node struct {
	kind  kind
	text  string // of a scalar, as written but without quotes
	line  int
	pairs []pair // of kindMap
	items []node // of kindList
}

type pair struct {
	name  string
	line  int
	value node
}

const firstWords = "it begins with  job: NAME"

// parseDocument returns the one document of a file as a map. Faults are added to the decoder; ok is false when there is
// no map to go on with.
func (d *decoder) parseDocument(data []byte) (root node, ok bool) {
	if line, w := unreadable(data); w != nil {
		d.add(place{d.file, line}, "", w)
		return node{}, false
	}
	documents, line, w := parse(data)
	if w != nil {
		d.add(place{d.file, line}, "", w)
		return node{}, false
	}
	if len(documents) == 0 {
		d.add(place{d.file, 1}, "", wrongf("the file is empty").hinted(firstWords))
		return node{}, false
	}
	for _, more := range documents[1:] {
		d.add(place{d.file, more.Line}, "", wrongf("a second document in the file").
			hinted("one file holds one job: remove the --- and what belongs to another job"))
	}
	root = d.convert(documents[0], "", 0)
	if root.kind != kindMap {
		d.add(place{d.file, root.line}, "", wrongf("the file holds %v, want keys", root.kind).hinted(firstWords))
	}
	return root, root.kind == kindMap
}

// unreadable looks for what the parser would take for something else.
func unreadable(data []byte) (line int, w *wrong) {
	if len(data) > maxFileBytes {
		return 0, wrongf("the file is larger than %s", formatSize(maxFileBytes))
	}
	for i, text := range bytes.Split(data, []byte("\n")) {
		switch {
		case !utf8.Valid(text):
			return i + 1, wrongf("the line is not valid UTF-8").hinted("save the file as UTF-8")
		case bytes.IndexByte(text, 0) >= 0:
			return i + 1, wrongf("the line holds a zero byte").hinted("save the file as UTF-8")
		}
	}
	return 0, nil
}

// parse returns the documents that hold anything. A panic of the library is a fault of the file like any other.
func parse(data []byte) (documents []*yaml.Node, line int, w *wrong) {
	defer func() {
		if p := recover(); p != nil {
			documents, line, w = nil, 0, wrongf("the file cannot be read as YAML: %v", p)
		}
	}()
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var document yaml.Node
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return documents, 0, nil
		}
		if err != nil {
			line, w = syntax(err.Error())
			return nil, line, w
		}
		if body := document.Content[0]; body.ShortTag() != "!!null" {
			documents = append(documents, body)
		}
	}
}

var syntaxForm = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// syntax takes an error of the library apart. Its scanner counts lines from 1 and its parser from 0, and neither names
// the first line.
func syntax(message string) (line int, w *wrong) {
	parts := syntaxForm.FindStringSubmatch(message)
	if parts == nil {
		return 0, wrongf("not YAML: %s", message)
	}
	line, _ = strconv.Atoi(parts[1])
	if strings.HasPrefix(parts[2], "did not find expected") || line == 0 {
		line++
	}
	w = wrongf("not YAML: %s", parts[2])
	switch {
	case strings.Contains(w.what, "cannot start any token"):
		w.hinted("indent with blanks, not tabs, and put text that begins with @ or ` in quotes")
	case strings.Contains(w.what, "end of stream"):
		w.hinted("a quote is not closed")
	case strings.Contains(w.what, "',' or"):
		w.hinted("a bracket or a brace is not closed, or a comma is missing")
	case strings.Contains(w.what, "expected key"), strings.Contains(w.what, "indicator"), strings.Contains(w.what, "document start"):
		w.hinted("look at the indentation there and in the line after it")
	}
	return line, w
}

// convert makes a node of the library's tree. Anchors, aliases and tags are refused: a configuration says what it means
// where it stands, and an alias can stand for any amount of memory.
func (d *decoder) convert(n *yaml.Node, path string, depth int) node {
	made := node{line: n.Line}
	switch {
	case depth > maxDepth:
		d.add(place{d.file, n.Line}, path, wrongf("nested more than %d deep", maxDepth))
		return made
	case n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0:
		d.add(place{d.file, n.Line}, path, wrongf("YAML's anchors, aliases and tags are not read here").
			hinted("write the value itself, in quotes when it begins with & * or !"))
	}
	switch n.Kind {
	case yaml.MappingNode:
		made.kind = kindMap
		made.pairs = d.convertPairs(n.Content, path, depth)
	case yaml.SequenceNode:
		made.kind = kindList
		for i, item := range n.Content {
			made.items = append(made.items, d.convert(item, fmt.Sprintf("%s[%d]", path, i), depth+1))
		}
	case yaml.ScalarNode:
		made.kind, made.text = scalarKind(n.ShortTag()), n.Value
	}
	return made
}

func scalarKind(tag string) kind {
	switch tag {
	case "!!null":
		return kindNull
	case "!!int", "!!float":
		return kindNumber
	case "!!bool":
		return kindTruth
	}
	return kindText
}

// convertPairs converts keys and values, which alternate.
func (d *decoder) convertPairs(content []*yaml.Node, path string, depth int) []pair {
	var pairs []pair
	first := map[string]int{}
	for ; len(content) > 1; content = content[2:] {
		key := content[0]
		full := join(path, key.Value)
		before, twice := first[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode || key.Anchor != "" || key.Style&yaml.TaggedStyle != 0:
			d.add(place{d.file, key.Line}, path, wrongf("a key that is no plain word"))
			continue
		case twice:
			d.add(place{d.file, key.Line}, full, wrongf("is there twice, first in line %d", before).hinted("keep one of the two"))
			continue
		}
		first[key.Value] = key.Line
		pairs = append(pairs, pair{name: key.Value, line: key.Line, value: d.convert(content[1], full, depth+1)})
	}
	return pairs
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
