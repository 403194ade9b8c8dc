package main

import (
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// audience are the subscribers of one channel. They read all the time and count the bytes.
type audience struct {
	conns []net.Conn
	got   []atomic.Int64 // bytes read by each subscriber
	gone  atomic.Int64   // number of disconnected subscribers
}

// deliveryGrace is the max time for subscribers to read what was published.
const deliveryGrace = time.Minute

// subscribe connects n subscribers of a channel.
func subscribe(addr, channel string, n int) (*audience, error) {
	a := &audience{got: make([]atomic.Int64, n)}
	for i := range n {
		c, err := net.DialTimeout("tcp", addr, deliveryGrace)
		if err != nil {
			a.close()
			return nil, err
		}
		a.conns = append(a.conns, c)
		if _, err := fmt.Fprintf(c, "SUBSCRIBE %s\r\n", channel); err != nil {
			a.close()
			return nil, err
		}
		go a.read(i, c)
	}
	confirmation := int64(len(fmt.Sprintf("*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(channel), channel)))
	if err := a.wait(confirmation); err != nil {
		a.close()
		return nil, err
	}
	for i := range a.got {
		a.got[i].Store(0)
	}
	return a, nil
}

func (a *audience) read(i int, c net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := c.Read(buf)
		a.got[i].Add(int64(n))
		if err != nil {
			a.gone.Add(1)
			return
		}
	}
}

// wait returns when every subscriber has read that many bytes.
func (a *audience) wait(bytes int64) error {
	for end := time.Now().Add(deliveryGrace); ; time.Sleep(time.Millisecond) {
		late := 0
		for i := range a.got {
			if a.got[i].Load() < bytes {
				late++
			}
		}
		switch {
		case late == 0:
			return nil
		case a.gone.Load() > 0:
			return fmt.Errorf("%d subscribers were disconnected", a.gone.Load())
		case time.Now().After(end):
			return fmt.Errorf("%d subscribers have not read all messages", late)
		}
	}
}

func (a *audience) close() {
	for _, c := range a.conns {
		c.Close()
	}
}

// messageSize returns the size in bytes of one message to a subscriber.
func messageSize(channel, payload string) int64 {
	return int64(len(fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(channel), channel,
		len(payload), payload)))
}
