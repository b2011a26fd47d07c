package kafka

import (
	wire "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/tidemark-streams/tidemark/integration/kafkarun"
)

// proxy stands between a broker and all its clients, for the broker advertises the proxy's address. It passes everything
// on as it is, but for what a fault is set for.
type proxy struct {
	listener net.Listener
	silent   sync.RWMutex // every frame passes it, in both directions
	mu       sync.Mutex
	broker   string // set when it is known
	faults   []*fault
	conns    map[net.Conn]bool
}

// fault is what happens to the next requests of a kind.
type fault struct {
	key   kmsg.Key
	count int
	which func(kmsg.Request) bool // nil: any
	do    effect
	// answer changes the broker's answer, with effect changed.
	answer func(kmsg.Request, kmsg.Response)

	hits chan struct{}
	held chan func() kmsg.Response // of effect held: each sends one request on to the broker and waits for its answer
}

// effect is what a fault does to a request.
type effect int

const (
	unsent  effect = iota // the broker never sees it; the connection breaks
	lost                  // the broker carries it out; the connection breaks in place of the answer
	held                  // the connection breaks; the broker sees it when it is let go
	changed               // the broker carries it out, and its answer is changed
	refused               // the broker never sees it, and answer makes one out of nothing
)

// startProxy makes a proxy that has an address and no broker yet.
func startProxy(t *testing.T) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, conns: map[net.Conn]bool{}}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.mu.Lock()
		for c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		serving.Wait()
	})
	return p
}

// serves makes the proxy pass on to a broker.
func (p *proxy) serves(b *kafkarun.Broker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broker = b.Addr
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// advertised is the setting that leads clients here.
func (p *proxy) advertised() string { return "advertised.listeners=PLAINTEXT://" + p.addr() }

// hush holds every frame back, in both directions and without breaking a connection, until the returned function is called,
// at the latest at the test's end: what was held then arrives late.
func (p *proxy) hush(t *testing.T) (speak func()) {
	t.Helper()
	p.silent.Lock()
	speak = sync.OnceFunc(p.silent.Unlock)
	t.Cleanup(speak)
	return speak
}

// pass waits while the proxy is silent.
func (p *proxy) pass() {
	p.silent.RLock()
	defer p.silent.RUnlock()
}

// inject sets a fault for the next count requests of a kind.
func (p *proxy) inject(f fault) *fault {
	f.count = max(f.count, 1)
	f.hits, f.held = make(chan struct{}, 1000), make(chan func() kmsg.Response, 1000)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = append(p.faults, &f)
	return &f
}

// clear ends all faults.
func (p *proxy) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = nil
}

// hit returns the fault that is set for a request, and counts it.
func (p *proxy) hit(key int16, request kmsg.Request) *fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults {
		if int16(f.key) == key && f.count > 0 && (f.which == nil || f.which(request)) {
			f.count--
			f.hits <- struct{}{}
			return f
		}
	}
	return nil
}

func (p *proxy) keep(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = true
}

// asked is a request on its way.
type asked struct {
	request kmsg.Request
	fault   *fault
	late    chan kmsg.Response // of one that was held
}

// serve passes one client's connection on.
func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	p.mu.Lock()
	to := p.broker
	p.mu.Unlock()
	broker, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	p.keep(client)
	p.keep(broker)
	var mu sync.Mutex
	waiting := map[uint32]asked{}
	var answering sync.WaitGroup
	answering.Go(func() {
		defer client.Close()
		for {
			frame, err := readFrame(broker)
			if err != nil {
				return
			}
			p.pass()
			mu.Lock()
			a := waiting[wire.BigEndian.Uint32(frame)]
			delete(waiting, wire.BigEndian.Uint32(frame))
			mu.Unlock()
			if a.fault != nil {
				if a.late != nil {
					a.late <- answerOf(frame, a.request)
					continue
				}
				if a.fault.do != changed {
					client.Close() // and the rest is read for the broker's sake
					continue
				}
				frame = reanswer(frame, a)
			}
			_ = writeFrame(client, frame)
		}
	})
	for {
		frame, err := readFrame(client)
		if err != nil {
			break
		}
		p.pass()
		key, request := parse(frame)
		f := p.hit(key, request)
		id := wire.BigEndian.Uint32(frame[4:])
		switch {
		case f != nil && f.do == refused:
			_ = writeFrame(client, reanswer(wire.BigEndian.AppendUint32(nil, id), asked{request: request, fault: f}))
			continue
		case f != nil && f.do == unsent:
			client.Close()
		case f != nil && f.do == held:
			client.Close()
			late := make(chan kmsg.Response, 1)
			mu.Lock()
			waiting[id] = asked{request, f, late}
			mu.Unlock()
			f.held <- func() kmsg.Response {
				_ = writeFrame(broker, frame)
				return <-late
			}
			answering.Wait() // the broker's side stays for it
			return
		default:
			mu.Lock()
			waiting[id] = asked{request: request, fault: f}
			mu.Unlock()
			_ = writeFrame(broker, frame)
			if f != nil && f.do == lost {
				answering.Wait()
				return
			}
		}
	}
	broker.Close()
	answering.Wait()
}

func readFrame(c net.Conn) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, wire.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c, frame)
	if err == nil && len(frame) < 4 {
		err = errors.New("no correlation id")
	}
	return frame, err
}

func writeFrame(c net.Conn, frame []byte) error {
	_, err := c.Write(append(wire.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}

// parse reads a request; nil where it is not understood.
func parse(frame []byte) (int16, kmsg.Request) {
	key, version := int16(wire.BigEndian.Uint16(frame)), int16(wire.BigEndian.Uint16(frame[2:]))
	request := kmsg.RequestForKey(key)
	if request == nil {
		return key, nil
	}
	request.SetVersion(version)
	body := frame[8:]
	if n := int16(wire.BigEndian.Uint16(body)); n >= 0 {
		body = body[n:]
	}
	body = body[2:]
	if request.IsFlexible() {
		body = body[1:] // no tags
	}
	if request.ReadFrom(body) != nil {
		return key, nil
	}
	return key, request
}

// head is what stands before the body of an answer.
func head(frame []byte, response kmsg.Response) []byte {
	if response.IsFlexible() && response.Key() != int16(kmsg.ApiVersions) {
		return append(frame[:4:4], 0)
	}
	return frame[:4:4]
}

// answerOf reads an answer.
func answerOf(frame []byte, request kmsg.Request) kmsg.Response {
	response := request.ResponseKind()
	if err := response.ReadFrom(frame[len(head(frame, response)):]); err != nil {
		panic(fmt.Sprintf("answer of %s: %v", kmsg.NameForKey(response.Key()), err))
	}
	return response
}

// reanswer makes the answer anew after the fault has changed it. A frame without a body is one to be made from nothing.
func reanswer(frame []byte, a asked) []byte {
	response := a.request.ResponseKind()
	if len(frame) > 4 {
		response = answerOf(frame, a.request)
	}
	a.fault.answer(a.request, response)
	return response.AppendTo(head(frame, response))
}

// happened fails the test unless the fault has hit n times.
func (f *fault) happened(t *testing.T, n int) {
	t.Helper()
	if len(f.hits) != n {
		t.Fatalf("the fault of %s has happened %d times, want %d", f.key.Name(), len(f.hits), n)
	}
}
