// Package record holds what is written to the changelog and what names it: keys, positions, identities, the commit
// record, the fence record and the digest. It is the vocabulary that every other room shares and it does no I/O.
//
// The byte formats of this package are version 1 and golden: testdata holds them and a test compares. A reader refuses
// a version it does not know with an error that names both versions; it never guesses.
package record
