package migration_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/cluster/migration/carry"
	"github.com/basaltdb/basalt/server/cluster/migration/destination"
	"github.com/basaltdb/basalt/server/cluster/migration/pace"
	"github.com/basaltdb/basalt/server/cluster/migration/source"
	"github.com/basaltdb/basalt/server/cluster/migration/stage"
	"github.com/basaltdb/basalt/server/config"
)

// node is a server whose keys have slots but that belongs to no cluster, so it refuses nothing.
type node struct {
	*server.Server
	db *engine.DB
	*client
}

func startNode(t testing.TB) *node {
	t.Helper()
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true, RedisBitOrder: true})
	cfg, err := config.Load([]string{"--port", "0", "--bind", "127.0.0.1", "--dir", t.TempDir()}, nil)
	require.NoError(t, err)
	s := server.New(cfg, db, zap.NewNop())
	require.NoError(t, s.Start())
	t.Cleanup(s.Close)
	return &node{s, db, dial(t, s.Addr())}
}

// client is a raw connection.
type client struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return &client{t, conn, bufio.NewReader(conn)}
}

func encode(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

// do runs a command and returns the raw reply.
func (c *client) do(args ...string) string {
	c.t.Helper()
	if _, err := c.Write(encode(args...)); err != nil {
		c.t.Fatal(err)
	}
	rep, err := rawReply(c.r)
	if err != nil {
		c.t.Fatalf("%q: %v", args, err)
	}
	return string(rep)
}

// ok runs commands, words separated by blanks. They must not fail.
func (c *client) ok(commands ...string) {
	c.t.Helper()
	for _, cmd := range commands {
		if rep := c.do(strings.Fields(cmd)...); rep[0] == '-' {
			c.t.Fatalf("%s: %s", cmd, rep)
		}
	}
}

// rawReply reads a reply or a command without parsing it.
func rawReply(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(string(line[1 : len(line)-2]))
	switch {
	case line[0] == '$' && n >= 0:
		body := make([]byte, n+2)
		if _, err := io.ReadFull(r, body); err != nil {
			return nil, err
		}
		line = append(line, body...)
	case line[0] == '*':
		for range n {
			item, err := rawReply(r)
			if err != nil {
				return nil, err
			}
			line = append(line, item...)
		}
	}
	return line, nil
}

// words returns the words of a command.
func words(raw []byte) (list []string) {
	r := bufio.NewReader(bytes.NewReader(raw))
	head, _ := r.ReadString('\n')
	n, _ := strconv.Atoi(strings.TrimSpace(head[1:]))
	for range n {
		size, _ := r.ReadString('\n')
		k, _ := strconv.Atoi(strings.TrimSpace(size[1:]))
		word := make([]byte, k+2)
		io.ReadFull(r, word)
		list = append(list, string(word[:k]))
	}
	return list
}

// sink is a node with a listener that handles CLUSTER IMPORT.
type sink struct {
	*node
	slots     *slots
	imp       atomic.Pointer[destination.Import]
	addr      string
	followed  atomic.Bool // somebody reads its log
	suspended atomic.Int32
	// hide are commands that it claims not to know.
	hide map[string]bool
	// hear is called with each command before it runs; false = the connection is cut instead.
	mu   sync.Mutex // held for hear and deaf
	hear func(cmd []string) bool
	// deaf is called after the command; true = the connection is cut, and the source gets no reply.
	deaf  func(cmd []string) bool
	links int // connections of sources; mu is held
	gone  *sync.Cond
	// numbers counts the connections.
	numbers atomic.Int64
}

// idle waits until no source is connected.
func (d *sink) idle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.links > 0 {
		d.gone.Wait()
	}
}

func (d *sink) linked(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.links += n
	d.gone.Broadcast()
}

func startDestination(t testing.TB) *sink {
	t.Helper()
	d := &sink{node: startNode(t), slots: &slots{}, hear: func([]string) bool { return true },
		deaf: func([]string) bool { return false }}
	d.gone = sync.NewCond(&d.mu)
	d.openImport(t.TempDir() + "/import")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d.addr = l.Addr().String()
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			d.linked(1)
			// Numbered here, because the goroutines may begin in another order than the connections.
			ln := &link{conn, d.numbers.Add(1), make(chan struct{})}
			wg.Go(func() { defer d.linked(-1); d.serve(t, ln) })
		}
	})
	return d
}

func (d *sink) openImport(path string) {
	files := filepath.Dir(d.db.Dir()) + "/files"
	imp, err := destination.New(destination.Options{DB: d.db, Slots: d.slots, Path: path, Log: zap.NewNop(),
		FilesDir: files, Followed: d.followed.Load, Ingested: func() {},
		Suspend: func() func() { d.suspended.Add(1); return func() { d.suspended.Add(-1) } },
		Has:     func(slot uint16) bool { return d.slots.has("imported", slot) }, IsReplica: func() bool { return false }})
	if err != nil {
		d.t.Error(err)
	}
	d.imp.Store(imp)
}

// link is a connection of a source.
type link struct {
	net.Conn
	id    int64
	ended chan struct{}
}

func (l *link) ID() int64              { return l.id }
func (l *link) Close()                 { l.Conn.Close() }
func (l *link) Ended() <-chan struct{} { return l.ended }

func (d *sink) serve(t testing.TB, ln *link) {
	conn := ln.Conn
	back, err := net.Dial("tcp", d.Addr())
	if err != nil {
		t.Error(err)
		return
	}
	defer func() {
		back.Close()
		conn.Close()
		close(ln.ended)
		d.imp.Load().LinkEnded(ln)
	}()
	in, out := bufio.NewReader(conn), bufio.NewReader(back)
	for {
		raw, err := rawReply(in)
		if err != nil {
			return
		}
		cmd := words(raw)
		d.mu.Lock()
		heard := d.hear(cmd)
		d.mu.Unlock()
		if !heard {
			return
		}
		var rep []byte
		switch {
		case strings.EqualFold(cmd[0], "CLUSTER"):
			rep = d.cluster(ln, cmd)
		case cmd[0] == "_ingest":
			rep = d.ingest(ln, cmd)
		case strings.EqualFold(cmd[0], "COMMAND") && d.hide[cmd[2]]:
			rep = []byte("*1\r\n*-1\r\n")
		default:
			if _, err := back.Write(raw); err != nil {
				return
			}
			if rep, err = rawReply(out); err != nil {
				return
			}
		}
		d.mu.Lock()
		deaf := d.deaf(cmd)
		d.mu.Unlock()
		if deaf {
			return
		}
		if _, err := conn.Write(rep); err != nil {
			return
		}
	}
}

func (d *sink) cluster(ln *link, cmd []string) []byte {
	r, err := cf.ParseSlotRange(cmd[2])
	if err == nil {
		switch cmd[3] {
		case "0":
			err = d.imp.Load().Start(ln, r)
		case "1":
			err = d.imp.Load().Succeed(ln, r)
		case "65":
			err = d.imp.Load().Confirm(ln, r)
		case "64":
			err = d.imp.Load().Verify(ln, r)
		case "2":
			err = d.imp.Load().Fail(ln, r)
		}
	}
	if err != nil {
		return []byte("-ERR " + err.Error() + "\r\n")
	}
	return []byte("+OK\r\n")
}

func (d *sink) ingest(ln *link, cmd []string) []byte {
	var err error
	switch cmd[1] {
	case "BEGIN":
		err = d.imp.Load().BeginFiles(ln)
	case "RECORDS":
		err = d.imp.Load().AddRecords(ln, []byte(cmd[2]))
	case "END":
		err = d.imp.Load().EndFiles(ln)
	}
	if err != nil {
		return []byte("-ERR " + err.Error() + "\r\n")
	}
	return []byte("+OK\r\n")
}

// slots records the calls for a node's slots.
type slots struct {
	mu     sync.Mutex
	marks  map[uint16]string
	forbid func() // is called by Forbid
}

func (s *slots) set(r cf.SlotRange, from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marks == nil {
		s.marks = map[uint16]string{}
	}
	for slot := int(r.First); slot <= int(r.Last); slot++ {
		if from == "" || s.marks[uint16(slot)] == from {
			s.marks[uint16(slot)] = to
		}
	}
}

func (s *slots) has(mark string, slot uint16) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marks[slot] == mark
}

func (s *slots) Forbid(r cf.SlotRange) error {
	if s.forbid != nil {
		s.forbid()
	}
	s.set(r, "", "forbidden")
	return nil
}
func (s *slots) Allow(r cf.SlotRange)          { s.set(r, "forbidden", "") }
func (s *slots) Importing(r cf.SlotRange)      { s.set(r, "", "importing") }
func (s *slots) ImportEnded(r cf.SlotRange)    { s.set(r, "importing", "") }
func (s *slots) Imported(r cf.SlotRange) error { s.set(r, "", "imported"); return nil }
func (s *slots) Arrived(r cf.SlotRange) error  { return s.Imported(r) }
func (s *slots) Confirmed(cf.SlotRange)        {}
func (s *slots) Revoked(r cf.SlotRange)        { s.set(r, "imported", "") }
func (s *slots) moved(r cf.SlotRange, first func()) error {
	first()
	s.set(r, "", "moved")
	return nil
}

// origin is a node with the source of migrations.
type origin struct {
	*node
	slots    *slots
	src      *source.Source
	settings source.Settings
	limits   source.Limits
	step     func(stage.Stage)
}

// patience is how long a test waits for what must happen. A busy host may stop the process for minutes.
const patience = 10 * time.Minute

// patient are limits that even a stalled machine does not exceed.
var patient = source.Limits{Rest: patience, Answer: patience, Confirm: patience}

func startOrigin(t testing.TB) *origin { return startOriginAt(t, pace.Real{}) }

func startOriginAt(t testing.TB, clock pace.Clock) *origin {
	t.Helper()
	o := &origin{node: startNode(t), slots: &slots{}, limits: patient, step: func(stage.Stage) {}}
	o.settings = source.Settings{Raw: true, Gap: 10000, Settings: carry.Settings{Pipeline: 16, BatchBytes: 16 << 10}}
	o.open(t, clock)
	t.Cleanup(func() { o.src.Close() })
	return o
}

// open makes the source.
func (o *origin) open(t testing.TB, clock pace.Clock) {
	o.src = source.New(source.Options{DB: o.db, Clock: clock, Slots: o.slots, Log: zaptest.NewLogger(t,
		zaptest.Level(zap.WarnLevel)), Settings: func() source.Settings { return o.settings },
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}, Step: func(s stage.Stage) { o.step(s) }, Limits: func() source.Limits { return o.limits }})
}

// migrate moves slots and returns the result.
func (o *origin) migrate(d *sink, r cf.SlotRange) error {
	done := make(chan error, 1)
	to := source.Target{ID: "d", Addr: d.addr, Moved: o.slots.moved, Stays: func(cf.SlotRange) {},
		Leaving: func(cf.SlotRange) error { return nil }}
	if err := o.src.Migrate(r, to, func(err error) { done <- err }); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// contents returns the records of slots, by user key. Without exact it leaves out versions of collections and indexes
// of lists, which commands do not preserve.
func contents(t testing.TB, db *engine.DB, r cf.SlotRange, exact bool) map[string]string {
	t.Helper()
	all := map[string]string{}
	lower, upper := engine.SlotBounds(r)
	now := time.Now().UnixMilli()
	enginetest.View(t, db, nil, func(tx *engine.Tx) error {
		it := tx.Iter(cf.Metadata, engine.IterOptions{Lower: lower, Upper: upper})
		defer it.Close()
		for it.Next() {
			m, tail, err := cf.DecodeMeta(it.Value())
			require.NoError(t, err)
			if !m.Live(now) {
				continue
			}
			_, name, _ := cf.SplitNSKey(it.Key(), true)
			var b strings.Builder
			bare := !exact && (m.Type == cf.TypeHash && len(tail) == 0 || m.Type == cf.TypeList || m.Type == cf.TypeSet ||
				m.Type == cf.TypeZSet || m.Type == cf.TypeSortedInt || m.Type == cf.TypeString)
			if bare {
				fmt.Fprintf(&b, "%s expire %d size %d", m.Type, m.Expire, m.Size)
				if m.Type == cf.TypeString {
					fmt.Fprintf(&b, " %q", tail)
				}
			} else {
				fmt.Fprintf(&b, "%s %x", m.Type, it.Value())
			}
			prefix := cf.AppendSubkeyPrefix(nil, it.Key(), true, m.Version)
			for _, id := range []cf.ID{cf.Default, cf.ZSetScore, cf.Stream} {
				if m.Type.SingleRecord() {
					break
				}
				sub := tx.Iter(id, engine.IterOptions{Prefix: prefix})
				for sub.Next() {
					switch {
					case m.Type == cf.TypeBitmap && len(bytes.Trim(sub.Value(), "\x00")) == 0:
						// Compactions drop fragments of zeros, at whichever side.
					case bare && m.Type == cf.TypeList:
						fmt.Fprintf(&b, "\n %x", sub.Value())
					default:
						fmt.Fprintf(&b, "\n %s %x = %x", id, sub.Key(), sub.Value())
					}
				}
				require.NoError(t, sub.Err())
				sub.Close()
			}
			all[string(name)] = b.String()
		}
		return it.Err()
	})
	return all
}

// compare compares the contents of slots on both sides.
func compare(t testing.TB, from, to *engine.DB, r cf.SlotRange, exact bool) {
	t.Helper()
	a, b := contents(t, from, r, exact), contents(t, to, r, exact)
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if b[name] != a[name] {
			t.Errorf("key %q: the source has\n%s\nthe destination has\n%s", name, a[name], b[name])
		}
		delete(b, name)
	}
	for name, what := range b {
		t.Errorf("key %q is at the destination only: %s", name, what)
	}
}

// writer writes random keys of all types, all of them in the slots of the tags.
type writer struct {
	*client
	rng  *rand.Rand
	tags []string
}

// writes are commands: K is a key of the type of the line, O another one, V a word, N a small number, F a float, I an
// id of a stream.
var writes = []struct {
	name     string
	commands []string
}{
	{"str", []string{"SET K V", "SET K V PX 900000", "APPEND K V", "INCRBY Kn N", "SETRANGE K N V", "GETDEL K",
		"MSET K V O V", "GETEX K PERSIST", "SET K V KEEPTTL"}},
	{"hash", []string{"HSET K V V V V", "HSET K V V", "HDEL K V", "HDEL K V V V", "HINCRBY K n N", "HINCRBYFLOAT K f F"}},
	{"hfe", []string{"HSET K V V V V", "HEXPIRE K 90000 FIELDS 1 V", "HPERSIST K FIELDS 1 V", "HDEL K V",
		"HSETEX K EX 5000 FIELDS 1 V V"}},
	{"list", []string{"RPUSH K V V V", "LPUSH K V V", "LPOP K", "RPOP K N", "LINSERT K BEFORE V V", "LREM K N V",
		"LTRIM K 0 N", "LTRIM K N -1", "LSET K 0 V", "LSET K -1 V", "LMOVE K O LEFT RIGHT", "LMOVE K K LEFT RIGHT",
		"LMOVEM K O RIGHT LEFT COUNT 3 OBO", "LMOVEM K K LEFT LEFT COUNT 3 OBO",
		"RPUSH K V V V V V V V V V V V V V V V V V V V V", "RPOPLPUSH O K"}},
	{"set", []string{"SADD K V V V", "SREM K V", "SPOP K", "SMOVE K O V", "SUNIONSTORE K K O", "SADD K V"}},
	{"zset", []string{"ZADD K F V F V", "ZREM K V", "ZINCRBY K F V", "ZPOPMIN K", "ZREMRANGEBYRANK K 0 0", "ZADD K inf V",
		"ZUNIONSTORE K 2 K O", "GEOADD K 13.3 38.1 V"}},
	{"bit", []string{"SETBIT K N 1", "SETBIT K 9000N 1", "SETBIT K N 0", "BITOP OR K K O"}},
	{"int", []string{"SIADD K N N", "SIREM K N", "SIADD K 1234567890123N"}},
	{"stream", []string{"XADD K * V V", "XADD K * V V V V", "XTRIM K MAXLEN 5", "XGROUP CREATE K gV 0 MKSTREAM",
		"XREADGROUP GROUP gV cV COUNT 2 STREAMS K >", "XREADGROUP GROUP gV cV COUNT 2 STREAMS K >", "XGROUP DESTROY K gV",
		"XAUTOCLAIM K gV cV 0 0", "XADD K MAXLEN ~ 10 * V V", "XACK K gV 1-1",
		"XREADGROUP GROUP gV cV COUNT 1 CLAIM 0 STREAMS K >", "XADD K 1-N V V", "XNACK K gV FAIL IDS 1 1-N FORCE",
		"XADD K IDMP pV N * V V", "XADD K IDMPAUTO pV * V V", "XCFGSET K IDMP-MAXSIZE 2"}},
	{"plainstream", []string{"XADD K * V V", "XADD K * V V V V", "XTRIM K MAXLEN 5"}},
	{"bloom", []string{"BF.ADD K V", "BF.MADD K V V V"}},
	{"cuckoo", []string{"CF.ADD K V", "CF.INSERT K ITEMS V V V", "CF.DEL K V"}},
	{"json", []string{`JSON.SET K $ {"a":[N,N]}`, "JSON.ARRAPPEND K $.a N", "JSON.NUMINCRBY K $.a[0] N"}},
	{"hll", []string{"PFADD K V V V", "PFMERGE K O"}},
	{"tdigest", []string{"TDIGEST.CREATE K", "TDIGEST.ADD K F F F"}},
	{"series", []string{"TS.ADD K N F chunk_size 2 on_duplicate last", "TS.ADD K 1N N chunk_size 2",
		"TS.INCRBY K N timestamp 2N", "TS.DEL K N 1N", "TS.CREATERULE K O aggregation sum 3",
		"TS.ALTER K duplicate_policy last"}},
	{"any", []string{"DEL X", "PEXPIRE X 800000", "EXPIREAT X 4102444800", "PERSIST X", "RENAME X Y", "COPY X Y REPLACE",
		"UNLINK X Y"}},
}

// write runs n commands. Many fail, because the key is missing or has another type.
func (w *writer) write(n int, types ...string) {
	w.t.Helper()
	for range n {
		line := writes[w.rng.IntN(len(writes))]
		if len(types) > 0 && !slices.Contains(types, line.name) {
			continue
		}
		tag := w.tags[w.rng.IntN(len(w.tags))]
		name := func(typ string) string { return fmt.Sprintf("{%s}%s%d", tag, typ, w.rng.IntN(4)) }
		cmd := strings.Fields(line.commands[w.rng.IntN(len(line.commands))])
		for i, word := range cmd {
			if i == 0 {
				continue
			}
			typ := line.name
			if typ == "any" {
				l := writes[w.rng.IntN(len(writes)-1)]
				if len(types) > 0 && !slices.Contains(types, l.name) {
					l.name = types[0]
				}
				typ = l.name
			}
			switch word {
			case "K", "O", "X", "Y":
				cmd[i] = name(typ)
			case "Kn":
				cmd[i] = name("num")
			case "V":
				cmd[i] = "v" + strconv.Itoa(w.rng.IntN(12))
			case "gV", "cV":
				cmd[i] = word[:1] + strconv.Itoa(w.rng.IntN(3))
			case "F":
				cmd[i] = strconv.FormatFloat(w.rng.NormFloat64(), 'g', -1, 64)
			default:
				cmd[i] = strings.ReplaceAll(word, "N", strconv.Itoa(w.rng.IntN(7)))
			}
		}
		w.do(cmd...)
	}
}
