package embedded

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections the test makes.
type pipes struct {
	net.Listener
	conns chan net.Conn
}

func (p pipes) Accept() (net.Conn, error) { return <-p.conns, nil }

// TestCrowd walks through a broker's life on a clock that the test owns.
func TestCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const linger = 30 * time.Second
		pass := time.Sleep //nolint:forbidigo // moves the clock of the test and takes no time
		listener := pipes{conns: make(chan net.Conn, 1)}
		enter := func(c *crowd) net.Conn {
			_, served := net.Pipe()
			listener.conns <- served
			conn, err := c.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return conn
		}
		c := newCrowd(listener)
		c.watch(linger)
		want := func(idle bool, when string) {
			synctest.Wait()
			select {
			case <-c.idle:
				if !idle {
					t.Fatalf("idle %s", when)
				}
			default:
				if idle {
					t.Fatalf("not idle %s", when)
				}
			}
		}
		pass(linger - time.Second)
		first := enter(c)
		second := enter(c)
		pass(10 * linger)
		want(false, "while two are connected")
		first.Close()
		first.Close()
		pass(10 * linger)
		want(false, "while one is connected and the other was closed twice")
		second.Close()
		pass(linger - time.Second)
		want(false, "before the linger time has passed since the last connection")
		third := enter(c)
		third.Close()
		pass(linger - time.Second)
		want(false, "a linger time after an earlier connection's end")
		pass(2 * time.Second)
		want(true, "after the linger time")
	})
}
