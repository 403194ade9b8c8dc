package session_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/session"
)

// runs are pipelines with the expected replies; QUIT is sent after each pipeline.
var runs = []struct {
	name     string
	commands []string
	replies  string
}{
	{"reads see earlier writes", []string{"SET k 1", "GET k", "INCR k", "GET k", "DEL k", "GET k"},
		"+OK\r\n$1\r\n1\r\n:2\r\n$1\r\n2\r\n:1\r\n$-1\r\n"},
	{"reads before a write do not see it", []string{"GET k", "GET k", "SET k v", "GET k"},
		"$-1\r\n$-1\r\n+OK\r\n$1\r\nv\r\n"},
	{"an error does not affect other commands", []string{"SET k x", "INCR k", "GET k", "HSET k f v", "SET k 5", "INCR k"},
		"+OK\r\n-ERR value is not an integer or out of range\r\n$1\r\nx\r\n-WRONGTYPE Operation against a key holding the " +
			"wrong kind of value\r\n+OK\r\n:6\r\n"},
	{"the replies of rejected commands are in order", []string{"SET k 1", "NOSUCH a b", "GET", "INCR k", "CLIENT NOSUCH",
		"GET k"},
		"+OK\r\n-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' \r\n-ERR wrong number of arguments for " +
			"'get' command\r\n:2\r\n-ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.\r\n$1\r\n2\r\n"},
	{"a solo command sees the writes before it", []string{"SET a 1", "SET b 1", "DBSIZE", "SET c 1", "FLUSHDB", "DBSIZE",
		"GET a"}, "+OK\r\n+OK\r\n:2\r\n+OK\r\n+OK\r\n:0\r\n$-1\r\n"},
	{"several keys", []string{"MSET a 1 b 2 c 3", "MGET a b c d", "DEL a b", "MGET a b c"},
		"+OK\r\n*4\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n$-1\r\n:2\r\n*3\r\n$-1\r\n$-1\r\n$1\r\n3\r\n"},
	{"replies off", []string{"SET k 1", "CLIENT REPLY OFF", "INCR k", "GET k", "NOSUCH", "CLIENT REPLY ON", "GET k"},
		"+OK\r\n+OK\r\n$1\r\n2\r\n"},
	{"replies skipped", []string{"CLIENT REPLY SKIP", "SET k 1", "INCR k", "CLIENT REPLY SKIP", "GET k", "GET k",
		"CLIENT REPLY SKIP", "NOSUCH", "PING"}, ":2\r\n$1\r\n2\r\n+PONG\r\n"},
	{"subscriptions are confirmed with replies off", []string{"CLIENT REPLY OFF", "SUBSCRIBE x", "SUBSCRIBE",
		"UNSUBSCRIBE x", "CLIENT REPLY ON"},
		"*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\nx\r\n:0\r\n+OK\r\n"},
	{"subscriptions are confirmed when the reply is skipped", []string{"CLIENT REPLY SKIP", "PSUBSCRIBE x",
		"PUNSUBSCRIBE", "PING"},
		"*3\r\n$10\r\npsubscribe\r\n$1\r\nx\r\n:1\r\n*3\r\n$12\r\npunsubscribe\r\n$1\r\nx\r\n:0\r\n+PONG\r\n"},
	{"the skipped reply is the reply after a wait", []string{"CLIENT REPLY SKIP", "BLPOP none 0.01", "PING",
		"CLIENT REPLY SKIP", "WAIT 1 1", "ECHO x", "CLIENT REPLY SKIP", "XREAD BLOCK 1 STREAMS s 0", "DBSIZE"},
		"+PONG\r\n$1\r\nx\r\n:0\r\n"},
	{"reset with replies off", []string{"CLIENT REPLY OFF", "RESET", "PING"}, "+RESET\r\n+PONG\r\n"},
	{"reset with its reply skipped", []string{"CLIENT REPLY SKIP", "RESET", "PING"}, "+PONG\r\n"},
	{"quit drops the rest", []string{"SET k 1", "QUIT", "SET k 2"}, "+OK\r\n"},
}

func TestPipelines(t *testing.T) {
	h := servertest.Start(t)
	for _, r := range runs {
		t.Run(r.name, func(t *testing.T) {
			h.Dial(t).Want("FLUSHALL", "+OK\r\n")
			c := h.Dial(t)
			c.Send(servertest.Pipeline(append(r.commands, "QUIT")...))
			if got, want := c.Closed(), r.replies+"+OK\r\n"; got != want {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// A pipeline is sent in two parts, cut at every byte, and then byte by byte.
func TestPipelinesCutAnywhere(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	commands := []string{"DEL k", "SET k 1", "GET k", "NOSUCH", "INCR k", "MGET k x", "DBSIZE", "GET k"}
	c.Want("SET k 0", "+OK\r\n")
	want := ":1\r\n+OK\r\n$1\r\n1\r\n-ERR unknown command 'NOSUCH', with args beginning with: \r\n:2\r\n*2\r\n$1\r\n" +
		"2\r\n$-1\r\n:1\r\n$1\r\n2\r\n"
	text := servertest.Pipeline(commands...)
	check := func(how string) {
		t.Helper()
		var got strings.Builder
		for range commands {
			got.WriteString(c.Reply())
		}
		if got.String() != want {
			t.Fatalf("%s: got %q", how, got.String())
		}
	}
	for cut := range len(text) {
		c.Send(text[:cut])
		c.Send(text[cut:])
		check(fmt.Sprintf("cut at %d", cut))
	}
	for i := range len(text) {
		c.Send(text[i : i+1])
	}
	check("byte by byte")
}

// A segment that reaches a bound is committed, and the rest of the pipeline runs.
func TestPipelineBounds(t *testing.T) {
	h := servertest.Start(t)
	tests := []struct {
		name string
		n    int
		cmd  func(i int) []string
	}{
		{"commands", 3*session.SegmentCommands + 7, func(i int) []string { return []string{"INCR", "n"} }},
		{"keys", 3 * session.SegmentKeys / 8, func(i int) []string {
			args := []string{"MSET"}
			for j := range 8 {
				args = append(args, fmt.Sprintf("k%d:%d", i, j), "v")
			}
			return args
		}},
		{"batch", 12, func(i int) []string {
			return []string{"SET", fmt.Sprint("big", i), strings.Repeat("x", session.SegmentBatch/4)}
		}},
		{"replies", 12, func(i int) []string {
			if i%2 == 0 {
				return []string{"SET", "r", strings.Repeat("y", session.SegmentReplies/2)}
			}
			return []string{"GET", "r"}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			one, many := h.Dial(t), h.Dial(t)
			var want, text strings.Builder
			one.Want("FLUSHALL", "+OK\r\n")
			for i := range tt.n {
				want.WriteString(one.Do(tt.cmd(i)...))
				text.WriteString(servertest.Encode(tt.cmd(i)...))
			}
			one.Want("FLUSHALL", "+OK\r\n")
			go many.Write([]byte(text.String()))
			var got strings.Builder
			for range tt.n {
				got.WriteString(many.Reply())
			}
			if got.String() != want.String() {
				t.Errorf("the replies of the pipeline differ from the replies of the commands one by one")
			}
		})
	}
}

// The writes of a pipeline share a commit, so that they share its cost.
func TestRunIsOneCommit(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("PING", "+PONG\r\n")
	before := h.DB.Stats.Commits.Load()
	var text []string
	for i := range 100 {
		text = append(text, fmt.Sprintf("SET k%d v", i), fmt.Sprintf("GET k%d", i))
	}
	c.Send(servertest.Pipeline(text...))
	for range text {
		c.Reply()
	}
	// The client's one write may reach the server in a few parts.
	if n := h.DB.Stats.Commits.Load() - before; n > 10 {
		t.Errorf("100 writes of one pipeline were %d commits", n)
	}
}

func TestCommitFailure(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("SET before 1", "+OK\r\n")
	const fail = "-ERR write failed: IO error: No space left on device\r\n"
	began := time.Now()
	h.DB.InjectWriteError(engine.NewError("ERR", "write failed: IO error: No space left on device"))
	for _, tt := range []struct{ commands, replies []string }{
		{[]string{"SET a 1"}, []string{fail}},
		// Replies before the first write are kept, also those of commands that wrote nothing. Commands between two
		// writes may have seen the first write, so they fail; commands after the last write run after the commit.
		{[]string{"GET before", "DEL missing", "GET before", "SET a 1", "GET a", "NOSUCH", "PING"},
			[]string{"$1\r\n1\r\n", ":0\r\n", "$1\r\n1\r\n", fail, "$-1\r\n",
				"-ERR unknown command 'NOSUCH', with args beginning with: \r\n", "+PONG\r\n"}},
		{[]string{"SET a 1", "GET a", "SET b 1", "DBSIZE", "GET a", "SET c 1"},
			[]string{fail, fail, fail, ":1\r\n", "$-1\r\n", fail}},
	} {
		c.Send(servertest.Pipeline(tt.commands...))
		for i, want := range tt.replies {
			if got := c.Reply(); got != want {
				t.Errorf("%v: reply %d is %q, want %q", tt.commands, i, got, want)
			}
		}
	}
	h.DB.InjectWriteError(nil)
	for _, k := range []string{"a", "b", "c"} {
		c.Want("GET "+k, "$-1\r\n")
	}
	c.Want("SET a 1", "+OK\r\n")
	if n, took := h.Logs.FilterMessage("a write failed").Len(), time.Since(began); n == 0 || n > 1+int(took/time.Second) {
		t.Errorf("%d log lines about failed writes in %v, want at least one, and at most one a second", n, took)
	}
	servertest.Eventually(t, "the end of the failures is logged", func() bool {
		return h.Logs.FilterMessage("writes succeed again").Len() == 1
	})
}

// TestRefusedIsNoFailure: a write that comes while the server becomes a replica is refused. It does not count as a
// write that has failed: whoever watches these would be alarmed by each failover.
func TestRefusedIsNoFailure(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	h.DB.SetReplica(func(set func(locked bool)) { set(true) })
	c.Want("SET k v", "-READONLY "+engine.ErrReplica.Error()+"\r\n")
	n, lines := h.Sessions().Stats.WriteErrors.Load(), h.Logs.FilterMessage("a write failed").Len()
	if n > 0 || lines > 0 {
		t.Errorf("%d errors, %d log lines", n, lines)
	}
	h.DB.SetMaster()
	c.Want("SET k v", "+OK\r\n")
}

// A panic in a handler closes its connection and does no other harm.
func TestPanic(t *testing.T) {
	h := servertest.Start(t)
	here, there := net.Pipe()
	defer here.Close()
	set := command.Lookup([]byte("SET"))
	bad := *set
	bad.Handler = func(c *command.Ctx) error {
		set.Handler(c)
		panic("a bug")
	}
	args := func(s ...string) (out [][]byte) {
		for _, x := range s {
			out = append(out, []byte(x))
		}
		return out
	}
	got, ends := session.NewLoop(h.Sessions(), there, 99).Execute([]*command.Spec{set, &bad, set},
		[][][]byte{args("SET", "a", "1"), args("SET", "b", "1"), args("SET", "c", "1")})
	if got != "+OK\r\n-ERR internal error\r\n" {
		t.Errorf("replies %q", got)
	}
	if !ends {
		t.Error("the connection stays open")
	}
	if h.Logs.FilterMessage("panic in a command").FilterField(zap.String("command", "set")).Len() != 1 {
		t.Error("the panic was not logged")
	}
	other := h.Dial(t) // the locks are free
	other.Send(servertest.Pipeline("MGET a b c", "MSET a 2 b 2 c 2"))
	if got := other.Reply() + other.Reply(); got != "*3\r\n$1\r\n1\r\n$-1\r\n$-1\r\n+OK\r\n" {
		t.Errorf("afterwards %q", got)
	}
	// A panic in Spec.Keys is outside of the handler: it passes Execute, and must release the locks.
	bad.Keys = func([][]byte, func(int, bool)) error { panic("another bug") }
	loop := session.NewLoop(h.Sessions(), there, 100)
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		loop.Execute([]*command.Spec{&bad}, [][][]byte{args("SET", "b", "1")})
	}()
	if p := <-done; p == nil {
		t.Error("no panic")
	}
	other.Want("SET b 3", "+OK\r\n")
}

func TestHugePipelineBeforeReading(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	value := strings.Repeat("v", 1000)
	c.Want("SET k "+value, "+OK\r\n")
	const n = 50000 // 50 MB of replies: more than the buffers of the sockets take
	text := []byte(strings.Repeat(servertest.Pipeline("GET k"), n))
	sent := make(chan error, 1)
	go func() {
		_, err := c.Write(text)
		sent <- err
	}()
	select {
	case err := <-sent:
		require.NoError(t, err)
	case <-time.After(servertest.Patience):
		t.Fatal("the server has stopped reading because the client does not read")
	}
	want := "$1000\r\n" + value + "\r\n"
	for i := range n {
		if got := c.Reply(); got != want {
			t.Fatalf("reply %d is %.40q", i, got)
		}
	}
}

// Pipelines that write and read several keys run at the same time: MGET never sees a part of the writes of an MSET.
func TestConcurrentPipelines(t *testing.T) {
	h := servertest.Start(t)
	const accounts, clients, rounds = 8, 6, 150
	var all []string
	for i := range accounts {
		all = append(all, fmt.Sprint("acc", i))
	}
	var wg sync.WaitGroup
	for w := range clients {
		wg.Go(func() {
			c := h.Dial(t)
			for r := range rounds {
				// MSET gives all accounts the same value, so that MGET must see equal ones.
				args := []string{"MSET"}
				for _, a := range all {
					args = append(args, a, fmt.Sprintf("%d-%d", w, r))
				}
				c.Send(servertest.Encode(args...) + servertest.Pipeline("INCR total", "INCR mine"+fmt.Sprint(w)) +
					servertest.Encode(append([]string{"MGET"}, all...)...))
				c.Reply()
				c.Reply()
				if got, want := c.Reply(), fmt.Sprintf(":%d\r\n", r+1); got != want {
					t.Errorf("own counter %q, want %q", got, want)
				}
				if got := c.Reply(); !allEqual(got) {
					t.Errorf("torn read inside a run: %q", got)
				}
			}
		})
		wg.Go(func() {
			c := h.Dial(t)
			for range rounds {
				if got := c.Do(append([]string{"MGET"}, all...)...); !allEqual(got) {
					t.Errorf("torn read: %q", got)
				}
			}
		})
	}
	wg.Wait()
	h.Dial(t).Want("GET total", fmt.Sprintf("$%d\r\n%d\r\n", len(fmt.Sprint(clients*rounds)), clients*rounds))
}

// allEqual reports whether all elements of an array reply are the same.
func allEqual(reply string) bool {
	_, elements, _ := strings.Cut(reply, "\r\n")
	first := elements
	if strings.HasPrefix(elements, "$-1") {
		first = "$-1\r\n"
	} else if size, rest, ok := strings.Cut(elements, "\r\n"); ok {
		value, _, _ := strings.Cut(rest, "\r\n")
		first = size + "\r\n" + value + "\r\n"
	}
	return strings.ReplaceAll(elements, first, "") == ""
}

// The text of an error that is not an engine.Error becomes an error reply, in one line.
func TestOtherErrors(t *testing.T) {
	h := servertest.Start(t)
	h.DB.InjectWriteError(errors.New("some\r\nfailure"))
	defer h.DB.InjectWriteError(nil)
	h.Dial(t).Want("SET k v", "-ERR some  failure\r\n")
}

// TestGroupReadsShareACommit: an XREADGROUP without BLOCK shares a commit with other writes; with BLOCK it does not.
func TestGroupReadsShareACommit(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("XGROUP CREATE s g 0 MKSTREAM", "+OK\r\n")
	c.Want("XGROUP CREATE block block 0 MKSTREAM", "+OK\r\n")
	for i := range 10 {
		c.Want(fmt.Sprintf("XADD s %d-1 f v", i+1), fmt.Sprintf("$%d\r\n%d-1\r\n", len(fmt.Sprint(i+1))+2, i+1))
	}
	entry := func(n int) string { return entryReply("s", fmt.Sprintf("%d-1", n), "f", "v") }
	const read = "XREADGROUP GROUP g c COUNT 1 STREAMS s >"
	c.Want(strings.Replace(read, " c ", " other ", 1), entry(1)) // a new consumer is written at once
	commits := h.DB.Stats.Commits.Load()
	c.Send(servertest.Pipeline(read, read, "XACK s g 2-1", "XREAD COUNT 1 STREAMS s 1-1", read, "XLEN s"))
	for i, want := range []string{entry(2), entry(3), ":1\r\n", entry(2), entry(4), ":10\r\n"} {
		if got := c.Reply(); got != want {
			t.Errorf("reply %d is %q, want %q", i, got, want)
		}
	}
	// The client's one write may reach the server in two parts.
	if n := h.DB.Stats.Commits.Load() - commits; n > 2 {
		t.Errorf("4 writes of one pipeline were %d commits", n)
	}
	// A command that blocks runs after the commands before it, and before the commands after it.
	other := h.Dial(t)
	c.Send(servertest.Pipeline("XREADGROUP GROUP block streams COUNT 1 BLOCK 0 STREAMS block >", "XLEN block"))
	h.BlockedClients(t, 1)
	other.Want("XADD block 1-1 f v", "$3\r\n1-1\r\n")
	for i, want := range []string{entryReply("block", "1-1", "f", "v"), ":1\r\n"} {
		if got := c.Reply(); got != want {
			t.Errorf("reply %d after the block is %q, want %q", i, got, want)
		}
	}
}

// TestGroupReadersInPipelines: consumers of one group read in pipelines at the same time, and each entry goes to one
// consumer.
func TestGroupReadersInPipelines(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("XGROUP CREATE s g 0 MKSTREAM", "+OK\r\n")
	const entries, readers, depth = 1000, 6, 16
	var adds []string
	for i := range entries {
		adds = append(adds, fmt.Sprintf("XADD s %d-1 f v", i+1))
	}
	c.Send(servertest.Pipeline(adds...))
	for range adds {
		c.Reply()
	}
	var wg sync.WaitGroup
	got := make([][]string, readers)
	for i := range readers {
		r := h.Dial(t)
		wg.Go(func() {
			text := strings.Repeat(servertest.Pipeline(fmt.Sprintf("XREADGROUP GROUP g c%d COUNT 1 STREAMS s >", i)), depth)
			for more := true; more; {
				r.Send(text)
				for range depth {
					reply := r.Reply()
					if more = reply != "*-1\r\n"; more {
						got[i] = append(got[i], reply)
					}
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	pending := fmt.Sprintf("*4\r\n:%d\r\n$3\r\n1-1\r\n$6\r\n%d-1\r\n", entries, entries)
	var of []string
	for i, replies := range got {
		for _, reply := range replies {
			if seen[reply] {
				t.Errorf("%q was delivered twice", reply)
			}
			seen[reply] = true
		}
		if len(replies) > 0 {
			of = append(of, servertest.Bulk(fmt.Sprint("c", i), fmt.Sprint(len(replies))))
		}
	}
	for i := range entries {
		if !seen[entryReply("s", fmt.Sprintf("%d-1", i+1), "f", "v")] {
			t.Errorf("entry %d was not delivered", i+1)
		}
	}
	c.Want("XPENDING s g", pending+fmt.Sprintf("*%d\r\n", len(of))+strings.Join(of, ""))
}

// TestPipelinesWaitWithoutLocks: while a pipeline waits for the lock of a key, what comes before that command is
// committed, and others can write every other key of the pipeline. Readers of one record do not wait at all.
func TestPipelinesWaitWithoutLocks(t *testing.T) {
	for _, tt := range []struct {
		name     string
		waits    bool
		pipeline []string
		replies  []string
		a        string // the value of a while popular is locked
	}{
		{"a write", true, []string{"INCR a", "INCR a", "INCR popular", "INCR a"},
			[]string{":1", ":2", ":2", ":3"}, "$1\r\n2\r\n"},
		{"the first command", true, []string{"INCR popular", "INCR a"}, []string{":2", ":1"}, "$-1\r\n"},
		{"a write of two keys", true, []string{"INCR a", "MSET b 5 popular 6", "INCR b"},
			[]string{":1", "+OK", ":6"}, "$1\r\n1\r\n"},
		{"a reader", false, []string{"INCR a", "GET popular", "INCR a", "GET a"},
			[]string{":1", "$1\r\n1", ":2", "$1\r\n2"}, "$1\r\n2\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := servertest.Start(t)
			c, other := h.Dial(t), h.Dial(t)
			c.Want("SET popular 1", "+OK\r\n")
			tx := h.DB.NewTx()
			defer tx.End()
			tx.Begin(cf.DefaultNamespace)
			tx.AddLock([]byte("popular"), true)
			require.NoError(t, tx.Acquire())
			var input strings.Builder
			for _, command := range tt.pipeline {
				input.WriteString(servertest.Encode(strings.Fields(command)...))
			}
			c.Send(input.String())
			expect := func() {
				for _, want := range tt.replies {
					c.Expect(want + "\r\n")
				}
			}
			if tt.waits {
				servertest.Eventually(t, "the pipeline waits", func() bool { return tx.Awaited() })
			} else {
				expect()
			}
			other.Want("PERSIST a", ":0\r\n") // needs the lock of a
			other.Want("GET a", tt.a)
			tx.Release()
			if tt.waits {
				expect()
			}
		})
	}
}

// TestCombinedScriptWaitsForItsOwnKeys: a script that another client's transaction has run, and that needs one more
// lock, runs again with its own locks, not with those of that transaction.
func TestCombinedScriptWaitsForItsOwnKeys(t *testing.T) {
	h := servertest.Start(t)
	c, other := h.Dial(t), h.Dial(t)
	holder, busy := h.DB.NewTx(), h.DB.NewTx()
	defer holder.End()
	defer busy.End()
	name := func(key string) uint64 { return busy.LockIn(cf.DefaultNamespace, []byte(key), true).Name() }
	more := "more" // of the holder; its lock is taken before that of busy
	for i := 0; name(more) >= name("busy"); i++ {
		more = fmt.Sprint("more", i)
	}
	lock := func(tx *engine.Tx, keys ...string) {
		t.Helper()
		tx.Begin(cf.DefaultNamespace)
		for _, key := range keys {
			tx.AddLock([]byte(key), true)
		}
		require.NoError(t, tx.Acquire())
	}
	lock(holder, "key", more)
	lock(busy, "busy")
	c.Send(servertest.Encode("EVAL", "return redis.call('INCR', 'busy')", "1", "key"))
	servertest.Eventually(t, "the script waits for its key", func() bool { return holder.Awaited() })
	holder.RunWaiting(func() bool { return false })
	require.NoError(t, holder.Commit())
	holder.Release()
	servertest.Eventually(t, "the script waits for the other key", func() bool { return busy.Awaited() })
	other.Want("INCR "+more, ":1\r\n")
	busy.Release()
	c.Expect(":1\r\n")
}

// TestReadersWaitForTheirOwnKey: while a pipeline of readers waits for the key of one of them, the keys of the others
// can be written.
func TestReadersWaitForTheirOwnKey(t *testing.T) {
	h := servertest.Start(t)
	c, other := h.Dial(t), h.Dial(t)
	tx := h.DB.NewTx()
	defer tx.End()
	tx.Begin(cf.DefaultNamespace)
	name := func(key string) uint64 { return tx.LockIn(cf.DefaultNamespace, []byte(key), true).Name() }
	// Locks are taken in the order of their names, so a batch of both would hold the first one while it waits.
	first, second := "a", "b"
	if name(first) > name(second) {
		first, second = second, first
	}
	c.Want("HSET "+first+" f 1", ":1\r\n")
	c.Want("HSET "+second+" f 1", ":1\r\n")
	tx.AddLock([]byte(second), true)
	require.NoError(t, tx.Acquire())
	c.Send(servertest.Encode("HGET", second, "f") + servertest.Encode("HGET", first, "f"))
	servertest.Eventually(t, "the pipeline waits", func() bool { return tx.Awaited() })
	other.Want("HSET "+first+" f 2", ":0\r\n")
	tx.Release()
	c.Expect("$1\r\n1\r\n")
	c.Expect("$1\r\n2\r\n")
}

// TestEventsOfCombined: the keyspace event of a command that another client's transaction has run is sent before any
// other client can have the lock of the key, so the events of a key have the order of its commands.
func TestEventsOfCombined(t *testing.T) {
	h := servertest.Start(t, "notify-keyspace-events", "KA")
	c, other, subscriber := h.Dial(t), h.Dial(t), h.Dial(t)
	channel := "__keyspace@0__:k"
	subscriber.Want("SUBSCRIBE "+channel, "*3\r\n$9\r\nsubscribe\r\n$16\r\n"+channel+"\r\n:1\r\n")
	tx := h.DB.NewTx()
	defer tx.End()
	tx.Begin(cf.DefaultNamespace)
	tx.AddLock([]byte("k"), true)
	require.NoError(t, tx.Acquire())
	c.Send(servertest.Encode("SET", "k", "v"))
	servertest.Eventually(t, "the command waits", tx.Awaited)
	tx.RunWaiting(func() bool { return false })
	require.NoError(t, tx.Commit())
	other.Want("PUBLISH "+channel+" later", ":1\r\n")
	tx.Release()
	subscriber.Expect(servertest.Bulk("message", channel, "set"))
	subscriber.Expect(servertest.Bulk("message", channel, "later"))
	c.Expect("+OK\r\n")
}

// TestKilledPipeline: after the reply to CLIENT KILL no further command of the client begins, although the client has
// sent it before.
func TestKilledPipeline(t *testing.T) {
	h := servertest.Start(t)
	admin, c := h.Dial(t), h.Dial(t)
	id := strings.TrimSpace(strings.TrimPrefix(c.Do("CLIENT", "ID"), ":"))
	tx := h.DB.NewTx()
	defer tx.End()
	tx.Begin(cf.DefaultNamespace)
	tx.AddLock([]byte("locked"), true)
	require.NoError(t, tx.Acquire())
	c.Send(servertest.Pipeline("SET before 1", "SET locked 1", "SET locked 2", "SET after 1", "HSET after:hash f 1"))
	servertest.Eventually(t, "the pipeline waits", tx.Awaited)
	admin.Want("CLIENT KILL ID "+id, ":1\r\n")
	tx.Release()
	servertest.Eventually(t, "the client is gone", func() bool { return h.Sessions().Clients() == 1 })
	admin.Want("EXISTS before", ":1\r\n")
	admin.Want("EXISTS after after:hash", ":0\r\n")
}
