// Package config turns a YAML file and the environment into a checked [Job], or into the list of everything that is
// wrong with them: each fault with file, line, full key, value, allowed range and, where there is one, the way to mend
// it (D01, W18). It reads the file, and the files that hold secrets and certificates; it never touches the network.
//
// # Rules
//
// Keys are exact. An unknown key is a fault and never ignored, and so is a key that is there twice, a second document
// in the file, and an environment variable that begins with TIDEMARK_ and names no key. A key that a later version will
// have is refused as "not yet", not as unknown.
//
// A key that holds one value or a list of texts, and is not inside a list, may be given by the environment:
// commit.max_records is TIDEMARK_COMMIT_MAX_RECORDS, and a list is separated by commas. The environment goes before the
// file, the file before the default. An empty variable is an empty value.
//
// Relative paths are relative to the working directory, as in any command line.
//
// Secrets are named, never written: by a file or by an environment variable. A [Secret] does not print.
//
// docs/reference/config.md describes every key; a test compares it with the code.
package config
