package aggregate

import (
	"math/rand/v2"
	"testing"
)

// readings are what a thermometer sends: two decimals, some noise.
func readings() []float64 {
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]float64, 1024)
	for i := range values {
		values[i] = float64(int(2000+1000*r.NormFloat64())) / 100
	}
	return values
}

var (
	floatSink float64
	bytesSink []byte
)

// One operation of these four is one reading, so that they can be compared: exact addition is to be a small multiple of
// a plain float addition.

func BenchmarkPlainAdd(b *testing.B) {
	values := readings()
	b.ReportAllocs()
	var sum float64
	for i := range b.N {
		sum += values[i&1023]
	}
	floatSink = sum
}

func BenchmarkSumAdd(b *testing.B) {
	values := readings()
	b.ReportAllocs()
	var s Sum
	for i := range b.N {
		s.Add(values[i&1023])
	}
	floatSink, _ = s.Float64()
}

func BenchmarkSumAddWide(b *testing.B) {
	values := readings()
	b.ReportAllocs()
	var s Sum
	s.Add(1e300)
	for i := range b.N {
		s.Add(values[i&1023])
	}
	floatSink, _ = s.Float64()
}

func BenchmarkAccumulatorAdd(b *testing.B) {
	values := readings()
	b.ReportAllocs()
	var a Accumulator
	at := spot(0)
	for i := range b.N {
		a.Add(values[i&1023], at)
	}
	floatSink, _ = a.Mean()
}

func BenchmarkAccumulatorAddSquares(b *testing.B) {
	values := readings()
	b.ReportAllocs()
	var a Accumulator
	a.Reset(Variance)
	at := spot(0)
	for i := range b.N {
		a.Add(values[i&1023], at)
	}
	floatSink, _, _ = a.Spread(Variance)
}

func BenchmarkAccumulatorAddEnds(b *testing.B) {
	values := readings()
	b.ReportAllocs()
	var a Accumulator
	a.Reset(Ends)
	for i := range b.N {
		a.Add(values[i&1023], &At{Time: int64(i), Offset: int64(i)})
	}
	floatSink = a.Last()
}

func BenchmarkStddev(b *testing.B) {
	a := accumulate(readings())
	b.ReportAllocs()
	for b.Loop() {
		floatSink, _, _ = a.Spread(Stddev)
	}
}

func BenchmarkSumEncode(b *testing.B) {
	s := sumOf(readings())
	b.ReportAllocs()
	for b.Loop() {
		bytesSink = s.AppendBinary(bytesSink[:0])
	}
}

func BenchmarkSumDecode(b *testing.B) {
	encoded := sumOf(readings()).AppendBinary(nil)
	var s Sum
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Decode(encoded); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSumFloat64(b *testing.B) {
	s := sumOf(readings())
	b.ReportAllocs()
	for b.Loop() {
		floatSink, _ = s.Float64()
	}
}

func BenchmarkMean(b *testing.B) {
	s := sumOf(readings())
	b.ReportAllocs()
	for b.Loop() {
		floatSink, _ = s.Mean(1024)
	}
}

func BenchmarkAccumulatorEncode(b *testing.B) {
	a := accumulate(readings())
	b.ReportAllocs()
	for b.Loop() {
		bytesSink = a.AppendBinary(bytesSink[:0], Plain)
	}
}

func BenchmarkAccumulatorDecode(b *testing.B) {
	encoded := accumulate(readings()).AppendBinary(nil, Plain)
	var a Accumulator
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.DecodeBinary(encoded, Plain); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendFloat(b *testing.B) {
	values := readings()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		bytesSink = AppendFloat(bytesSink[:0], values[i&1023])
	}
}
