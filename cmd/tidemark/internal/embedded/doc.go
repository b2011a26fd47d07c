// Package embedded is the broker for trying tidemark out: kfake, hosted in a process of its own so that it is a failure
// domain of its own. Killing a command never touches it.
//
// Serve is that process. Ensure is what every command with "kafka: embedded" calls: it uses the broker that runs in a
// directory or starts one, and holds it for as long as the command lives. A broker that nobody holds ends by itself.
//
// It is no production broker. A kill between the markers of one transaction can tear it, and compaction is not
// crash-safe either (R1); so its cleaner is off, and it says what it is at every start.
//
// Files in its directory: data (kfake's own), addr (host:port, kept after the end so that the next broker takes the
// same port), id (the cluster's id), lock (held for life by the broker, holds its pid), start (held by a command while
// it starts one), log.
package embedded
