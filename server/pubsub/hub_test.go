package pubsub

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/wire"
)

// subscriber is a client and what it has received.
type subscriber struct {
	Client
	there net.Conn
}

func newSubscriber(t *testing.T) *subscriber {
	here, there := net.Pipe()
	s := &subscriber{there: there}
	s.Out = wire.New(here, wire.Limits{Hard: func() int { return 0 }})
	t.Cleanup(func() { there.Close(); s.Out.Close() })
	return s
}

// expect reads what the client has received, as many bytes as want has.
func (s *subscriber) expect(t *testing.T, want string) {
	t.Helper()
	got := make([]byte, len(want))
	for n := 0; n < len(got); {
		m, err := s.there.Read(got[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	if string(got) != want {
		t.Errorf("received %q, want %q", got, want)
	}
}

func (s *subscriber) add(h *Hub, kind command.SubscriptionKind, name string) (count int, added bool) {
	h.Add(&s.Client, kind, name, nil, func(n int, is bool) []byte {
		count, added = n, is
		return nil
	})
	return count, added
}

func message(parts ...string) string {
	s := fmt.Sprintf("*%d\r\n", len(parts))
	for _, p := range parts {
		s += fmt.Sprintf("$%d\r\n%s\r\n", len(p), p)
	}
	return s
}

func TestSubscriptions(t *testing.T) {
	var h Hub
	var c Client
	for _, step := range []struct {
		do        func() int
		want, all int
		names     string
	}{
		{func() int { return add(&h, &c, command.Channel, "a") }, 1, 1, "[a] [] []"},
		{func() int { return add(&h, &c, command.Channel, "a") }, -1, 1, "[a] [] []"},
		{func() int { return add(&h, &c, command.Pattern, "a*") }, 2, 2, "[a] [a*] []"},
		{func() int { return add(&h, &c, command.ShardChannel, "a") }, 1, 3, "[a] [a*] [a]"},
		{func() int { return h.Remove(&c, command.Channel, "b") }, 2, 3, "[a] [a*] [a]"},
		{func() int { return h.Remove(&c, command.Channel, "a") }, 1, 2, "[] [a*] [a]"},
		{func() int { return h.Remove(&c, command.ShardChannel, "a") }, 0, 1, "[] [a*] []"},
		{func() int { return h.Remove(&c, command.Pattern, "a*") }, 0, 0, "[] [] []"},
		{func() int { return h.Remove(&c, command.Pattern, "a*") }, 0, 0, "[] [] []"},
	} {
		if got := step.do(); got != step.want || h.Len() != step.all {
			t.Errorf("%d and %d subscriptions, want %d and %d", got, h.Len(), step.want, step.all)
		}
		names := fmt.Sprint(c.Names(command.Channel), c.Names(command.Pattern), c.Names(command.ShardChannel))
		if names != step.names || c.Subscribed() != (step.all > 0) {
			t.Errorf("%s, want %s", names, step.names)
		}
	}
}

// add returns the number of subscriptions, negative when the new one is not new.
func add(h *Hub, c *Client, kind command.SubscriptionKind, name string) (n int) {
	h.Add(c, kind, name, nil, func(count int, added bool) []byte {
		if n = count; !added {
			n = -count
		}
		return nil
	})
	return n
}

// TestNoMessageIsMissed: while a confirmation is posted, and may be sent with a message on another channel, nobody can
// publish. What is published after the client has read the confirmation reaches the client.
func TestNoMessageIsMissed(t *testing.T) {
	var h Hub
	posted := false
	here, there := net.Pipe()
	defer there.Close()
	var c Client
	c.Out = wire.New(here, wire.Limits{Hard: func() int { // asked for by each post
		posted = true
		if h.mu.TryRLock() {
			h.mu.RUnlock()
			t.Error("a publisher may come between the confirmation and the subscription")
		}
		return 0
	}})
	defer c.Out.Close()
	batch := wire.NewBatch(nil)
	h.Add(&c, command.ShardChannel, "s", &batch, func(int, bool) []byte { return []byte("confirmed") })
	if !posted || !batch.Pending() || h.Len() != 1 {
		t.Errorf("posted: %t, to be flushed: %t, %d subscriptions", posted, batch.Pending(), h.Len())
	}
}

func TestPublish(t *testing.T) {
	var h Hub
	var flusher wire.Flusher
	batch := wire.NewBatch(&flusher)
	channel, pattern, shard := newSubscriber(t), newSubscriber(t), newSubscriber(t)
	if n := h.Publish(Message{Channel: []byte("ch"), Payload: []byte("lost")}, nil, nil); n != 0 {
		t.Errorf("%d receivers", n)
	}
	channel.add(&h, command.Channel, "ch")
	channel.SetProto(3)
	pattern.add(&h, command.Pattern, "c?")
	shard.add(&h, command.ShardChannel, "ch")
	for _, want := range []struct {
		shard bool
		n     int
	}{{false, 2}, {true, 1}} {
		if n := h.Receivers([]byte("ch"), want.shard); n != want.n {
			t.Errorf("%d receivers, want %d", n, want.n)
		}
		if n := h.Publish(Message{[]byte("ch"), []byte("m"), want.shard}, &channel.Client, &batch); n != want.n {
			t.Errorf("%d have received it, want %d", n, want.n)
		}
	}
	if own := string(batch.Own()); own != ">"+message("message", "ch", "m")[1:] {
		t.Errorf("the publisher tells itself %q", own)
	}
	batch.Flush()
	h.Publish(Message{Channel: []byte("cx"), Payload: []byte("of the server")}, nil, nil)
	pattern.expect(t, message("pmessage", "c?", "ch", "m")+message("pmessage", "c?", "cx", "of the server"))
	shard.expect(t, message("smessage", "ch", "m"))
	if got := h.Channels(command.Channel, nil); !slices.Equal(got, []string{"ch"}) {
		t.Errorf("channels %v", got)
	}
	if h.Subscribers(command.Channel, []byte("ch")) != 1 || h.Topics(command.Pattern) != 1 {
		t.Error("subscribers are not counted")
	}
	h.RemoveAll(&channel.Client)
	h.RemoveAll(&pattern.Client)
	h.RemoveAll(&shard.Client)
	if h.Len() != 0 || h.Topics(command.Channel) != 0 {
		t.Errorf("%d subscriptions are left", h.Len())
	}
}

// All subscribers see the messages of several publishers in the same order, and none is lost.
func TestOneOrder(t *testing.T) {
	var h Hub
	var flusher wire.Flusher
	const publishers, each = 4, 100
	a, b := newSubscriber(t), newSubscriber(t)
	a.add(&h, command.Channel, "ch")
	b.add(&h, command.Channel, "ch")
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			batch := wire.NewBatch(&flusher)
			for i := range each {
				h.Publish(Message{Channel: []byte("ch"), Payload: fmt.Appendf(nil, "%d:%02d", p, i)}, nil, &batch)
				batch.Flush()
			}
		})
	}
	size := len(message("message", "ch", "0:00"))
	read := func(s *subscriber) string {
		all := make([]byte, size*publishers*each)
		for n := 0; n < len(all); {
			m, err := s.there.Read(all[n:])
			if err != nil {
				t.Error(err)
				break
			}
			n += m
		}
		return string(all)
	}
	seen := make(chan string)
	go func() { seen <- read(a) }()
	got := read(b)
	if other := <-seen; other != got {
		t.Error("two subscribers have seen different orders")
	}
	wg.Wait()
}
