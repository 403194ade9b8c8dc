package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// silent checks that nothing arrives: the client is paused. What it waits for is seen in the server.
func (h *harness) pausedClients(t *testing.T, n int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d clients are paused", n), func() bool { return h.paused.Load() == n })
}

func TestPauseWrites(t *testing.T) {
	h := start(t)
	admin := h.dial(t)
	admin.want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	reader := h.dial(t)
	reader.want("GET k", "$-1\r\n")
	reader.want("MULTI", "+OK\r\n")
	reader.want("GET k", "+QUEUED\r\n")
	reader.want("EXEC", "*1\r\n$-1\r\n")
	var waiting []*client
	for _, cmd := range []string{"SET k 1", "FLUSHALL", "BLPOP l 0.01", "LPUSH l x"} {
		w := h.dial(t)
		w.send(pipeline("PING", cmd, "PING"))
		if got := w.reply(); got != "+PONG\r\n" { // what comes before is answered
			t.Errorf("%q", got)
		}
		waiting = append(waiting, w)
		h.pausedClients(t, int64(len(waiting)))
	}
	if got := admin.do("CLIENT", "LIST"); strings.Count(got, "flags=b ") != 4 {
		t.Errorf("%q", got)
	}
	if got := admin.do("INFO", "clients"); !strings.Contains(got, "blocked_clients:4\r\n") {
		t.Errorf("%q", got)
	}
	admin.want("CLIENT UNPAUSE", "+OK\r\n")
	for i, want := range []string{"+OK\r\n", "+OK\r\n", "", ":1\r\n"} {
		if got := waiting[i].reply(); want != "" && got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
		if got := waiting[i].reply(); got != "+PONG\r\n" {
			t.Errorf("%d: %q after it", i, got)
		}
	}
	h.pausedClients(t, 0)
	admin.want("CLIENT UNPAUSE", "+OK\r\n")
}

func TestPauseAll(t *testing.T) {
	h := start(t)
	admin, c := h.dial(t), h.dial(t)
	begin := time.Now()
	admin.want("CLIENT PAUSE 200", "+OK\r\n")
	c.want("PING", "+PONG\r\n")
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("the pause was %v long", took)
	}
	eventually(t, "the pause is forgotten", func() bool { return h.observed.Load().pause == nil })
	// The longer of two pauses counts, and ALL does not become WRITE.
	admin.want("CLIENT PAUSE 60000 ALL", "+OK\r\n")
	c.send(encode("PING"))
	h.pausedClients(t, 1)
	h.Pause(time.Millisecond, false)
	h.pausedClients(t, 1)
	// As in Redis nobody can end it, and what is refused is refused at once.
	admin.send(encode("CLIENT", "UNPAUSE"))
	h.pausedClients(t, 2)
	other := h.dial(t)
	other.want("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: \r\n")
	other.want("GET", "-ERR wrong number of arguments for 'get' command\r\n")
	h.services.Clients.Unpause()
	c.expect("+PONG\r\n")
	admin.expect("+OK\r\n")
	for cmd, want := range map[string]string{
		"CLIENT PAUSE -1":                  "-ERR timeout is negative\r\n",
		"CLIENT PAUSE x":                   "-ERR timeout is not an integer or out of range\r\n",
		"CLIENT PAUSE 9223372036854775807": "-ERR timeout is out of range\r\n",
		"CLIENT PAUSE 9223372036854775808": "-ERR timeout is not an integer or out of range\r\n",
		"CLIENT PAUSE 1 READ":              "-ERR CLIENT PAUSE mode must be WRITE or ALL\r\n",
		"CLIENT PAUSE 0":                   "+OK\r\n",
		"CLIENT PAUSE 0 WRITE":             "+OK\r\n",
	} {
		admin.want(cmd, want)
	}
}

// A paused client that leaves, or is killed, is gone at once; closing the server does not wait for the pause.
func TestPausedClientLeaves(t *testing.T) {
	h := start(t)
	admin := h.dial(t)
	admin.want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	a, b, c := h.dial(t), h.dial(t), h.dial(t)
	for i, w := range []*client{a, b, c} {
		w.do("CLIENT", "SETNAME", fmt.Sprintf("c%d", i))
		w.send(encode("SET", "k", "v"))
	}
	h.pausedClients(t, 3)
	a.Close()
	h.pausedClients(t, 2)
	id := 0
	for _, i := range h.services.Clients.List() {
		if i.Name == "c1" {
			id = int(i.ID)
		}
	}
	admin.want(fmt.Sprintf("CLIENT KILL ID %d", id), ":1\r\n")
	h.pausedClients(t, 1)
	h.Close()
	if got := c.closed(); got != "" {
		t.Errorf("%q", got)
	}
}

// After the reply to CLIENT PAUSE nothing is written, whatever was under way.
func TestPauseIsExact(t *testing.T) {
	h := start(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 6 {
		c := h.dial(t)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var err error
				switch i % 3 {
				case 0:
					err = roundTrip(c, pipeline("INCR n", "GET n", "INCR n"), 3)
				case 1:
					err = roundTrip(c, pipeline("MULTI", "INCR n", "EXEC"), 3)
				default:
					err = roundTrip(c, pipeline("INCR n"), 1)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	admin := h.dial(t)
	for range 30 {
		admin.want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
		before := admin.do("GET", "n")
		seq := h.db.LatestSequence()
		time.Sleep(2 * time.Millisecond) // time in which nothing may happen
		if after := admin.do("GET", "n"); after != before || h.db.LatestSequence() != seq {
			t.Errorf("written while paused: %q, %q", before, after)
		}
		admin.want("CLIENT UNPAUSE", "+OK\r\n")
	}
	close(stop)
	wg.Wait()
}

// A write is not carried along by a script that only reads.
func TestPauseAfterScript(t *testing.T) {
	h := start(t)
	admin, c := h.dial(t), h.dial(t)
	admin.want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	c.send(encode("EVAL_RO", "return redis.call('EXISTS', KEYS[1])", "1", "k") + pipeline("SET k v"))
	c.expect(":0\r\n")
	h.pausedClients(t, 1)
	admin.want("EXISTS k", ":0\r\n")
	c2 := h.dial(t)
	c2.send(encode("EVAL", "return redis.call('SET', KEYS[1], 1)", "1", "k"))
	h.pausedClients(t, 2)
	admin.want("CLIENT UNPAUSE", "+OK\r\n")
	c.expect("+OK\r\n")
	c2.expect("+OK\r\n")
}

// A client that speaks TLS is paused, goes on, and is missed when it leaves, as any other.
func TestPauseTLS(t *testing.T) {
	h, ca := startTLS(t)
	admin, c := h.dialTLS(t, ca.Client("")), h.dialTLS(t, ca.Client(""))
	admin.want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	c.send(encode("SET", "k", "v"))
	h.pausedClients(t, 1)
	admin.want("CLIENT UNPAUSE", "+OK\r\n")
	if got := c.reply(); got != "+OK\r\n" {
		t.Errorf("%q", got)
	}
	admin.want("CLIENT PAUSE 100 WRITE", "+OK\r\n")
	c.want("SET k v", "+OK\r\n")
	admin.want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	c.send(encode("SET", "k", "v"))
	h.pausedClients(t, 1)
	c.Close()
	eventually(t, "the client is gone", func() bool { return h.clients() == 1 })
}

// roundTrip sends commands and reads their replies; unlike do it may run outside the test's goroutine.
func roundTrip(c *client, commands string, replies int) error {
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte(commands)); err != nil {
		return err
	}
	for range replies {
		var b strings.Builder
		if err := c.readReply(&b); err != nil {
			return err
		}
	}
	return nil
}
