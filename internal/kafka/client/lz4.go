package client

import (
	"bytes"

	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
)

// frames packs batches as LZ4 frames of blocks of 64 KiB, as Java's producers do (Lz4BlockOutputStream), where kgo's blocks
// are of up to 4 MiB: it takes less time (BenchmarkOutbox), and its buffer is as large as a block. There is no checksum, for
// the batch has one. Not for concurrent use.
type frames struct{ writer *lz4.Writer }

func newFrames() (kgo.Compressor, error) {
	w := lz4.NewWriter(nil)
	return &frames{w}, w.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false), lz4.CompressionLevelOption(lz4.CCompatFast))
}

// Compress is described by kgo.Compressor.
func (f *frames) Compress(dst *bytes.Buffer, src []byte, _ ...kgo.CompressFlag) ([]byte, kgo.CompressionCodecType) {
	f.writer.Reset(dst)
	if _, err := f.writer.Write(src); err != nil {
		return nil, kgo.CodecError
	}
	if err := f.writer.Close(); err != nil {
		return nil, kgo.CodecError
	}
	return dst.Bytes(), kgo.CodecLz4
}
