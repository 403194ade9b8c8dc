package migrate

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/internal/transfer"
	"github.com/basaltdb/basalt/server/resp"
	"github.com/basaltdb/basalt/server/servertest"
)

// startRedis starts a redis-server and returns its address.
func startRedis(t *testing.T, settings ...string) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("redis-server is needed (Debian: redis-server): %v", err)
	}
	for range 5 { // another process may take the port between its choice and its use
		port := servertest.FreePort(t)
		out := &lockedBuffer{}
		cmd := exec.CommandContext(t.Context(), path, append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "",
			"--dir", t.TempDir(), "--repl-diskless-sync-delay", "0"}, settings...)...)
		cmd.Stdout = out
		require.NoError(t, cmd.Start())
		ended := make(chan struct{})
		go func() {
			cmd.Wait()
			close(ended)
		}()
		t.Cleanup(func() {
			cmd.Process.Kill()
			<-ended
		})
		servertest.Eventually(t, "redis-server starts", func() bool {
			select {
			case <-ended:
				return true
			default:
				return strings.Contains(out.String(), "Ready to accept")
			}
		})
		if strings.Contains(out.String(), "Ready to accept") {
			return net.JoinHostPort("127.0.0.1", port)
		}
	}
	t.Fatal("redis-server does not start")
	return ""
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// startCluster starts basalts that share the slots, and returns the address of one of them.
func startCluster(t *testing.T, n int) string {
	t.Helper()
	var nodes []transfer.Address
	for range n {
		nodes = append(nodes, transfer.Address{Network: "tcp", Host: servertest.Start(t, "cluster-enabled", "yes").Addr()})
	}
	return share(t, nodes)
}

// share makes a cluster of nodes, which share the slots, and returns the address of one of them.
func share(t *testing.T, nodes []transfer.Address) string {
	t.Helper()
	var text strings.Builder
	for i, a := range nodes {
		_, port, _ := net.SplitHostPort(a.Host)
		fmt.Fprintf(&text, "%s 127.0.0.1 %s master - %d-%d\n", nodeID(i), port, i*16384/len(nodes),
			(i+1)*16384/len(nodes)-1)
	}
	for i, a := range nodes {
		c := dialAddress(t, a)
		c.do("CLUSTERX", "SETNODEID", nodeID(i))
		c.do("CLUSTERX", "SETNODES", strings.TrimSpace(text.String()), "1")
	}
	return nodes[0].Host
}

func nodeID(i int) string { return strings.Repeat(string(rune('a'+i)), 40) }

// testConn is a connection of a test.
type testConn struct {
	t *testing.T
	*pipe
}

func dialTest(t *testing.T, addr string) testConn {
	t.Helper()
	a, err := transfer.ParseAddress(addr)
	require.NoError(t, err)
	return dialAddress(t, a)
}

func dialAddress(t *testing.T, a transfer.Address) testConn {
	t.Helper()
	p, err := dial(t.Context(), a)
	require.NoError(t, err)
	t.Cleanup(p.close)
	return testConn{t, p}
}

func (c testConn) do(args ...string) resp.Reply {
	c.t.Helper()
	r, err := c.pipe.do(args...)
	if err != nil {
		c.t.Fatalf("%.200q: %v", args, err)
	}
	return r
}

// lines runs commands, a word between blanks each.
func (c testConn) lines(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		c.do(strings.Fields(line)...)
	}
}

// values are of all types that Redis has.
var values = []string{
	"SET s v", "SET e v PXAT 4102444800000", "SET n 7", "SETRANGE long 600000 end", "SETBIT bits 7 1",
	"SETBIT bits 90000 1",
	"PFADD hll a b c d", "RPUSH l a b c a", "SADD ints 1 2 3", "SADD t a b c", "HSET h f v g w", "ZADD z 1.5 a inf b -2 c",
	"XADD x 1-1 f v", "XADD x 2-1 f v g w", "XADD x 3-1 f v", "XDEL x 1-1", "XGROUP CREATE x g 0",
	"XREADGROUP GROUP g c COUNT 1 STREAMS x >", "XGROUP CREATECONSUMER x g idle", "EXPIRE t 100000",
}

// ownValues are of types that Redis lacks.
var ownValues = []string{`JSON.SET j $ {"a":[1,2,{"b":null}]}`, "SIADD si 0 3 1 2", "EXPIRE si 100000",
	"HSET hf f v g w", "HPEXPIREAT hf 4102444800000 FIELDS 1 f"}

const manyElems = 1000

// fill writes keys of many types, some of them large.
func (c testConn) fill(more ...string) {
	c.t.Helper()
	c.lines(values...)
	c.lines(more...)
	for i := range manyElems {
		n := strconv.Itoa(i)
		for _, wait := range []func() ([]resp.Reply, error){
			c.start([]string{"SADD", "manyt", "member " + n}, []string{"HSET", "manyh", "field " + n, n},
				[]string{"ZADD", "manyz", n, "member " + n}, []string{"RPUSH", "manyl", n},
				[]string{"XADD", "manyx", "1-" + strconv.Itoa(i+1), "f", n}, []string{"SET", "key:" + n, n}),
		} {
			if _, err := wait(); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	c.lines("XGROUP CREATE manyx g 0", "XREADGROUP GROUP g c COUNT 600 STREAMS manyx >")
	c.do("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() return 1 end)")
}

// writers change a source until it refuses that.
type writers struct {
	t     *testing.T
	acked []int64 // by the number of the counter
	ended chan struct{}
	wrote chan struct{} // gets something after a round, if somebody wants it
}

const counters = 20

// startWriters begins to count, and to do what changes keys of several slots.
func startWriters(t *testing.T, addr string) *writers {
	w := &writers{t: t, acked: make([]int64, counters), ended: make(chan struct{}), wrote: make(chan struct{})}
	c := dialTest(t, addr)
	go func() {
		defer close(w.ended)
		for round := 0; ; round++ {
			for i := range w.acked {
				replies, err := c.start([]string{"INCR", "counter:" + strconv.Itoa(i)})()
				if err != nil {
					return // the test has ended
				}
				if err := replies[0].Err(); err != nil {
					if !strings.HasPrefix(err.Error(), "NOREPLICAS") {
						t.Errorf("a writer: %v", err)
					}
					return
				}
				w.acked[i] = replies[0].Int
			}
			n := strconv.Itoa(round)
			_, err := c.start([]string{"MSET", "m1", n, "m2", n, "m3", n}, []string{"SADD", "from", n},
				[]string{"RENAME", "m1", "renamed"},
				[]string{"SUNIONSTORE", "stored", "from", "t"}, []string{"COPY", "renamed", "copied", "REPLACE"},
				[]string{"MULTI"}, []string{"LPUSH", "queue", n}, []string{"LTRIM", "queue", "0", "9"}, []string{"EXEC"},
				[]string{"SET", "short", n, "PX", "20"}, []string{"SPOP", "from"},
				[]string{"XADD", "log", "MAXLEN", "5", "*", "n", n},
				[]string{"EVAL", "redis.call('set', KEYS[1], ARGV[1]) return redis.call('del', KEYS[2])", "2", "ev1", "m2", n})()
			if err != nil {
				return
			}
			select {
			case w.wrote <- struct{}{}:
			default:
			}
		}
	}()
	return w
}

// rounds waits for some rounds.
func (w *writers) rounds(n int) {
	for range n {
		select {
		case <-w.wrote:
		case <-w.ended:
			w.t.Fatal("the writers have ended")
		}
	}
}

// arrived checks that the target has all that was acknowledged, and nothing else.
func (w *writers) arrived(addr string) {
	w.t.Helper()
	<-w.ended
	p := connectTest(w.t, addr)
	k, err := open(w.t.Context(), p, 0)
	require.NoError(w.t, err)
	for i, n := range w.acked {
		r, err := k.do("GET", "counter:"+strconv.Itoa(i))
		if err != nil || string(r.Text) != strconv.FormatInt(n, 10) {
			w.t.Errorf("counter %d is %s (%v), %d was acknowledged", i, r.Text, err, n)
		}
	}
}

func connectTest(t *testing.T, addr string) *peer {
	t.Helper()
	a, err := transfer.ParseAddress(addr)
	require.NoError(t, err)
	p, err := connect(t.Context(), a)
	require.NoError(t, err)
	return p
}

func options(t *testing.T, from, to string) Options {
	t.Helper()
	o := Options{Pause: servertest.Patience}
	var err, e error
	o.From, err = transfer.ParseAddress(from)
	o.To, e = transfer.ParseAddress(to)
	if err != nil || e != nil {
		t.Fatal(err, e)
	}
	return o
}

// migrated runs a migration that must end well.
func migrated(t *testing.T, o Options) *Result {
	t.Helper()
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatalf("%v; %+v, comparison %+v", err, r, r.Comparison)
	}
	if c := r.Comparison; c == nil || c.Differ > 0 || c.Keys < manyElems {
		t.Fatalf("the comparison: %+v", c)
	}
	return r
}

// differing compares two servers and returns "key: what" of what differs, sorted.
func differing(t *testing.T, from, to string) []string {
	t.Helper()
	o := options(t, from, to)
	o.CompareOnly = true
	r, err := Run(t.Context(), o)
	require.NoError(t, err)
	var list []string
	for _, d := range r.Comparison.Differences {
		list = append(list, d.Key+": "+d.What)
	}
	slices.Sort(list)
	if int64(len(list)) != r.Comparison.Differ {
		t.Errorf("%d differ, of %q", r.Comparison.Differ, list)
	}
	return list
}
