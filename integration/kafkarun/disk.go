package kafkarun

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
)

// Data is where the broker keeps a partition. Tests copy and change it while the broker is stopped, as a lost disk or a
// restored volume would.
func (b *Broker) Data(topic string, partition int32) string {
	return filepath.Join(b.path("data"), fmt.Sprintf("%s-%d", topic, partition))
}

// Rebuild gives the stopped broker an empty disk: after Restart it is another cluster, with another id, at the same
// address.
func (b *Broker) Rebuild(ctx context.Context) error {
	if err := os.RemoveAll(b.path("data")); err != nil {
		return err
	}
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	format := b.java(ctx, "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format",
		"-t", base64.RawURLEncoding.EncodeToString(id[:]), "-c", b.path("server.properties"))
	if out, err := format.CombinedOutput(); err != nil {
		return fmt.Errorf("format %s again: %w\n%s", b.dir, err, tail(out))
	}
	return nil
}
