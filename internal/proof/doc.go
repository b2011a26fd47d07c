// Package proof judges tidemark from outside: it names what can go wrong with state and results, compares what was
// observed with what the oracle computed, and kills the real binary while it works.
//
// What is compared comes from outside too: the lines of `state dump`, and topics read by the oracle's own reader.
// Nothing that tidemark says about itself is taken for true.
package proof
