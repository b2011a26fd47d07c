package main

import (
	"encoding/json"
	"testing"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// TestMeta shows every form that keys, values and headers take.
func TestMeta(t *testing.T) {
	header := kafka.Header{Key: "tidemark", Value: []byte("1 abc")}
	for want, r := range map[string]kafka.Record{
		`{"topic":"t","partition":3,"offset":7,"timestamp":-1,"key":null,"value":null,"headers":[]}`:              {Offset: 7, Timestamp: -1},
		`{"topic":"t","partition":3,"offset":0,"timestamp":0,"key":"","value_b64":"","headers":[]}`:               {Key: []byte{}, Value: []byte{}},
		`{"topic":"t","partition":3,"offset":0,"timestamp":0,"key":"a\"<é","value":{"a":[1,"\n"]},"headers":[]}`:  {Key: []byte(`a"<é`), Value: []byte("{\"a\":\n[1,\r\n\"\\n\"]}")},
		`{"topic":"t","partition":3,"offset":0,"timestamp":0,"key_b64":"wP8=","value_b64":"/w==","headers":[]}`:   {Key: []byte{0xC0, 0xFF}, Value: []byte{0xFF}},
		`{"topic":"t","partition":3,"offset":0,"timestamp":0,"key":null,"value_b64":"eyJhIjrAfQ==","headers":[]}`: {Value: []byte("{\"a\":\xC0}")},
		`{"topic":"t","partition":3,"offset":0,"timestamp":0,"key":null,"value": 1e400 ,"headers":[]}`:            {Value: []byte(" 1e400 ")},
		`{"topic":"t","partition":3,"offset":0,"timestamp":0,"key":null,"value":null,"headers":[{"key":"tidemark","value":"1 abc"},{"key":"tidemark","value_b64":"/w=="},{"key":"","value":null}]}`: {
			Headers: []kafka.Header{header, {Key: "tidemark", Value: []byte{0xFF}}, {}}},
	} {
		got := string(appendMeta(nil, "t", 3, &r))
		if got != want || !json.Valid([]byte(got)) {
			t.Errorf("line is %s, want %s", got, want)
		}
	}
}
