package embedded

import (
	"net"
	"sync"
	"time"
)

// crowd is a listener that knows how many of its connections are open. Once watched, its idle channel is closed when
// nobody was connected for the linger time.
type crowd struct {
	net.Listener
	idle chan struct{}

	mu     sync.Mutex
	open   int
	linger time.Duration
	timer  *time.Timer // nil: not watched
}

func newCrowd(listener net.Listener) *crowd {
	return &crowd{Listener: listener, idle: make(chan struct{})}
}

// watch begins to count the linger time.
func (c *crowd) watch(linger time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.linger = linger
	c.timer = time.AfterFunc(linger, c.expire)
}

// Accept counts the connection in.
func (c *crowd) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open++
	if c.timer != nil {
		c.timer.Stop()
	}
	return &guest{Conn: conn, leave: sync.OnceFunc(c.leave)}, nil
}

func (c *crowd) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.open == 0 && c.timer != nil {
		c.timer.Reset(c.linger)
	}
}

// expire runs when the timer fires. A connection may have come in just then: it stays, and its end starts the timer
// again.
func (c *crowd) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open > 0 {
		return
	}
	select {
	case <-c.idle:
	default:
		close(c.idle)
	}
}

// guest is one counted connection. It may be closed more than once.
type guest struct {
	net.Conn
	leave func()
}

// Close counts the connection out.
func (g *guest) Close() error {
	err := g.Conn.Close()
	g.leave()
	return err
}
