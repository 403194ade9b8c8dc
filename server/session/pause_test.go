package session_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

func TestPauseWrites(t *testing.T) {
	h := servertest.Start(t)
	admin := h.Dial(t)
	admin.Want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	reader := h.Dial(t)
	reader.Want("GET k", "$-1\r\n")
	reader.Want("MULTI", "+OK\r\n")
	reader.Want("GET k", "+QUEUED\r\n")
	reader.Want("EXEC", "*1\r\n$-1\r\n")
	var waiting []*servertest.Client
	for _, cmd := range []string{"SET k 1", "FLUSHALL", "BLPOP l 0.01", "LPUSH l x"} {
		w := h.Dial(t)
		w.Send(servertest.Pipeline("PING", cmd, "PING"))
		if got := w.Reply(); got != "+PONG\r\n" { // the command before the write is answered
			t.Errorf("%q", got)
		}
		waiting = append(waiting, w)
		h.PausedClients(t, len(waiting))
	}
	if got := admin.Do("CLIENT", "LIST"); strings.Count(got, "flags=b ") != 4 {
		t.Errorf("%q", got)
	}
	if got := admin.Do("INFO", "clients"); !strings.Contains(got, "blocked_clients:4\r\n") {
		t.Errorf("%q", got)
	}
	admin.Want("CLIENT UNPAUSE", "+OK\r\n")
	for i, want := range []string{"+OK\r\n", "+OK\r\n", "", ":1\r\n"} {
		if got := waiting[i].Reply(); want != "" && got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
		if got := waiting[i].Reply(); got != "+PONG\r\n" {
			t.Errorf("%d: PING after the write: %q", i, got)
		}
	}
	h.PausedClients(t, 0)
	admin.Want("CLIENT UNPAUSE", "+OK\r\n")
}

func TestPauseAll(t *testing.T) {
	h := servertest.Start(t)
	admin, c := h.Dial(t), h.Dial(t)
	begin := time.Now()
	admin.Want("CLIENT PAUSE 200", "+OK\r\n")
	c.Want("PING", "+PONG\r\n")
	if took := time.Since(begin); took < 200*time.Millisecond {
		t.Errorf("the pause was %v long", took)
	}
	servertest.Eventually(t, "the pause is forgotten", func() bool { return !h.Sessions().PauseKept() })
	// The longer of two pauses applies, and a pause of ALL does not become a pause of WRITE.
	admin.Want("CLIENT PAUSE 60000 ALL", "+OK\r\n")
	c.Send(servertest.Encode("PING"))
	h.PausedClients(t, 1)
	h.Sessions().Pause(time.Millisecond, false)
	h.PausedClients(t, 1)
	// As in Redis, CLIENT UNPAUSE waits for the end of a pause of ALL, too. Commands that are refused do not wait.
	admin.Send(servertest.Encode("CLIENT", "UNPAUSE"))
	h.PausedClients(t, 2)
	other := h.Dial(t)
	other.Want("NOSUCH", "-ERR unknown command 'NOSUCH', with args beginning with: \r\n")
	other.Want("GET", "-ERR wrong number of arguments for 'get' command\r\n")
	h.Sessions().Services.Clients.Unpause()
	c.Expect("+PONG\r\n")
	admin.Expect("+OK\r\n")
	for cmd, want := range map[string]string{
		"CLIENT PAUSE -1":                  "-ERR timeout is negative\r\n",
		"CLIENT PAUSE x":                   "-ERR timeout is not an integer or out of range\r\n",
		"CLIENT PAUSE 9223372036854775807": "-ERR timeout is out of range\r\n",
		"CLIENT PAUSE 9223372036854775808": "-ERR timeout is not an integer or out of range\r\n",
		"CLIENT PAUSE 1 READ":              "-ERR CLIENT PAUSE mode must be WRITE or ALL\r\n",
		"CLIENT PAUSE 0":                   "+OK\r\n",
		"CLIENT PAUSE 0 WRITE":             "+OK\r\n",
	} {
		admin.Want(cmd, want)
	}
}

// A paused client that disconnects or is killed is removed at once; Close of the server does not wait for the pause.
func TestPausedClientLeaves(t *testing.T) {
	h := servertest.Start(t)
	admin := h.Dial(t)
	admin.Want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	a, b, c := h.Dial(t), h.Dial(t), h.Dial(t)
	for i, w := range []*servertest.Client{a, b, c} {
		w.Do("CLIENT", "SETNAME", fmt.Sprintf("c%d", i))
		w.Send(servertest.Encode("SET", "k", "v"))
	}
	h.PausedClients(t, 3)
	a.Close()
	h.PausedClients(t, 2)
	id := 0
	for _, i := range h.Sessions().Services.Clients.List() {
		if i.Name == "c1" {
			id = int(i.ID)
		}
	}
	admin.Want(fmt.Sprintf("CLIENT KILL ID %d", id), ":1\r\n")
	h.PausedClients(t, 1)
	h.Close()
	if got := c.Closed(); got != "" {
		t.Errorf("%q", got)
	}
}

// After the reply to CLIENT PAUSE nothing is written, whatever was under way.
func TestPauseIsExact(t *testing.T) {
	h := servertest.Start(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for i := range 6 {
		c := h.Dial(t)
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
					err = c.RoundTrip(servertest.Pipeline("INCR n", "GET n", "INCR n"), 3)
				case 1:
					err = c.RoundTrip(servertest.Pipeline("MULTI", "INCR n", "EXEC"), 3)
				default:
					err = c.RoundTrip(servertest.Pipeline("INCR n"), 1)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	admin := h.Dial(t)
	for range 30 {
		admin.Want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
		before := admin.Do("GET", "n")
		seq := h.DB.LatestSequence()
		time.Sleep(2 * time.Millisecond) // nothing must happen meanwhile: there is no event to wait for
		if after := admin.Do("GET", "n"); after != before || h.DB.LatestSequence() != seq {
			t.Errorf("written while paused: %q, %q", before, after)
		}
		admin.Want("CLIENT UNPAUSE", "+OK\r\n")
	}
	close(stop)
	wg.Wait()
}

// TestPauseOfCombined: a client that has not seen the pause writes nothing in the transaction of a client that may run
// during the pause: of a script that only reads.
func TestPauseOfCombined(t *testing.T) {
	h := servertest.Start(t)
	admin, c := h.Dial(t), h.Dial(t)
	for range 32 {
		admin.Do("RPUSH", "long", strings.Repeat("x", 1<<20))
	}
	// The pipeline begins before the pause. It goes on when the client reads.
	c.Send(servertest.Pipeline("LRANGE long 0 -1", "SET k v"))
	_, err := c.R.Peek(1)
	require.NoError(t, err)
	admin.Want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	reader := h.DB.NewTx()
	defer reader.End()
	reader.Begin(cf.DefaultNamespace)
	reader.AddLock([]byte("k"), true)
	require.NoError(t, reader.Acquire())
	c.Reply()
	servertest.Eventually(t, "the pipeline waits", reader.Awaited)
	reader.RunWaiting(func() bool { return false })
	if !reader.Empty() {
		t.Error("written while paused")
	}
	reader.Release()
	h.PausedClients(t, 1)
	admin.Want("CLIENT UNPAUSE", "+OK\r\n")
	c.Expect("+OK\r\n")
}

// A write that follows a script that only reads, in the same pipeline, is paused.
func TestPauseAfterScript(t *testing.T) {
	h := servertest.Start(t)
	admin, c := h.Dial(t), h.Dial(t)
	admin.Want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	c.Send(servertest.Encode("EVAL_RO", "return redis.call('EXISTS', KEYS[1])", "1", "k") + servertest.Pipeline("SET k v"))
	c.Expect(":0\r\n")
	h.PausedClients(t, 1)
	admin.Want("EXISTS k", ":0\r\n")
	c2 := h.Dial(t)
	c2.Send(servertest.Encode("EVAL", "return redis.call('SET', KEYS[1], 1)", "1", "k"))
	h.PausedClients(t, 2)
	admin.Want("CLIENT UNPAUSE", "+OK\r\n")
	c.Expect("+OK\r\n")
	c2.Expect("+OK\r\n")
}

// A TLS client is paused and continues like any other client, and the server notices that it disconnects during a
// pause.
func TestPauseTLS(t *testing.T) {
	h, ca := servertest.StartTLS(t)
	admin, c := h.DialTLS(t, ca.Client("")), h.DialTLS(t, ca.Client(""))
	admin.Want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	c.Send(servertest.Encode("SET", "k", "v"))
	h.PausedClients(t, 1)
	admin.Want("CLIENT UNPAUSE", "+OK\r\n")
	if got := c.Reply(); got != "+OK\r\n" {
		t.Errorf("%q", got)
	}
	admin.Want("CLIENT PAUSE 100 WRITE", "+OK\r\n")
	c.Want("SET k v", "+OK\r\n")
	admin.Want("CLIENT PAUSE 60000 WRITE", "+OK\r\n")
	c.Send(servertest.Encode("SET", "k", "v"))
	h.PausedClients(t, 1)
	c.Close()
	servertest.Eventually(t, "the client is disconnected", func() bool { return h.Sessions().Clients() == 1 })
}
