package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/ingeststep"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/internal/transfer"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/servertest"
)

// dump is an RDB file that goes by table files, in chunks of 1 MiB.
type dump struct {
	path  string
	keys  []string // in the order of the file, as in keysAt
	ends  []int64  // where each key ends in the file
	parts string   // a key that is too large for table files
	want  map[string]string
}

const (
	dumpKeys    = 2800
	dumpLarge   = 800      // the number of the key that is too large
	dumpExpired = 10 << 20 // size of a key that is expired: small files do not go by table files
	dumpMemory  = "3"
)

// newDump writes the file. Its keys are in another order than in the database.
func newDump(t *testing.T) *dump {
	t.Helper()
	d := &dump{path: filepath.Join(t.TempDir(), "dump.rdb")}
	b := []byte("REDIS0012")
	body, _ := rdb.AppendValue(nil, &rdb.Value{String: make([]byte, dumpExpired)})
	b = rdb.AppendKey(b, []byte("expired"), body, 1)
	for n := range dumpKeys {
		if n%(dumpKeys/2) == 0 {
			b = rdb.AppendSelect(b, uint64(n/(dumpKeys/2)))
		}
		kinds := []rdb.Kind{rdb.String, rdb.Hash, rdb.ZSet, rdb.List, rdb.Set}
		v := &rdb.Value{Kind: kinds[n%len(kinds)]}
		text := strings.Repeat(strconv.Itoa(n)+" ", 4096)
		elems := 4
		if n == dumpLarge {
			v.Kind, elems, d.parts = rdb.Set, 1500, fmt.Sprintf("0 %s", dumpKey(n))
		}
		if v.Kind == rdb.String {
			v.String = []byte(text[:4096])
		} else {
			for i := range elems {
				v.Elems = append(v.Elems, fmt.Appendf(nil, "%d %s", i, text[:1000]))
			}
		}
		if v.Kind == rdb.ZSet {
			v.Scores = []float64{1, 2, 3, float64(n)}
		}
		body, _ = rdb.AppendValue(nil, v)
		expire := int64(0)
		if n%3 == 0 {
			expire = 4102444800_000 // the year 2100
		}
		b = rdb.AppendKey(b, []byte(dumpKey(n)), body, expire)
	}
	b = append(b, 0xff)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0) // no checksum
	require.NoError(t, os.WriteFile(d.path, b, 0o600))
	f, err := rdb.NewFile(bytes.NewReader(b), int64(len(b)), 1<<30)
	require.NoError(t, err)
	err = f.Each(1<<20, func(i *rdb.Item) error {
		if !i.More && string(i.Key) != "expired" {
			d.keys = append(d.keys, fmt.Sprintf("%d %s", i.DB, i.Key))
			d.ends = append(d.ends, f.Offset())
		}
		return nil
	})
	if err != nil || len(d.keys) != dumpKeys {
		t.Fatal(len(d.keys), err)
	}
	// Nothing is killed there, and nothing goes by table files.
	dir, conf := filepath.Join(t.TempDir(), "reference"), write(t, t.TempDir()+"/kvrocks.conf", "redis-databases 2\n")
	if _, err := transfer.Import(t.Context(), transfer.ImportOptions{Path: d.path, DB: -1, Dir: dir,
		Memory: 64 << 20, Config: conf}); err != nil {
		t.Fatal(err)
	}
	d.want = keysAt(t, transfer.ExportOptions{Dir: dir, Config: conf})
	return d
}

func dumpKey(n int) string { return fmt.Sprintf("%08x", uint32(n)*2654435761) }

// keysAt returns the keys of all databases of a server or a directory, each with what is exported of it.
func keysAt(t *testing.T, o transfer.ExportOptions) map[string]string {
	t.Helper()
	var out bytes.Buffer
	o.Format, o.DB, o.Out = "jsonl", -1, &out
	if _, err := transfer.Export(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	for line := range strings.Lines(out.String()) {
		var head struct {
			Key string
			DB  int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &head))
		keys[fmt.Sprintf("%d %s", head.DB, head.Key)] = line
	}
	return keys
}

// target is a server that takes an import. Importers reach it at the same address whenever it is started.
type target struct {
	t      *testing.T
	d      *dump
	dir    string
	stops  stops
	proxy  *servertest.Proxy
	proc   *process
	before map[string]string // its keys before the import
	last   map[string]string // those that check has seen
	have   int               // how many keys of the file were there then
}

func newTarget(t *testing.T, d *dump) *target {
	t.Helper()
	g := &target{t: t, d: d, dir: t.TempDir(), stops: stops(t.TempDir()), proxy: servertest.NewProxy(t, "")}
	g.start()
	c, err := transfer.Dial(t.Context(), g.address())
	require.NoError(t, err)
	defer c.Close()
	for n := range 100 { // some that the import replaces, by another type or the same one, and some that stay
		for _, command := range [][]string{{"SET", dumpKey(n * 20), "old"}, {"RPUSH", fmt.Sprint("stays ", n), "a", "b"},
			{"PEXPIREAT", fmt.Sprint("stays ", n), "4102444800000"}} {
			if _, err := c.Do(command...); err != nil {
				t.Fatal(err)
			}
		}
	}
	g.before = g.keys()
	return g
}

func (g *target) start() {
	g.t.Helper()
	cmd := basalt(g.t, "--port", "0", "--dir", g.dir, "--log-dir", "stdout", "--bind", "127.0.0.1",
		"--redis-databases", "2")
	cmd.Env = append(cmd.Env, stopsDir+"="+string(g.stops))
	g.proc = follow(g.t, cmd)
	g.proc.ready(g.proc.await(" ready "))
	go func(p *process) {
		for range p.lines {
		}
	}(g.proc)
	g.proxy.Target(g.proc.addr)
}

// kill kills the server.
func (g *target) kill() {
	g.proc.cmd.Process.Kill()
	g.proc.cmd.Wait()
}

func (g *target) address() transfer.Address {
	return transfer.Address{Network: "tcp", Host: fmt.Sprintf("127.0.0.1:%d", g.proxy.Port())}
}

func (g *target) keys() map[string]string {
	g.t.Helper()
	to := g.address()
	return keysAt(g.t, transfer.ExportOptions{Server: &to})
}

// importer is a process that imports.
type importer struct {
	cmd    *exec.Cmd
	stdout strings.Builder
	stderr strings.Builder
}

// result is what an importer prints.
func (i *importer) result(t *testing.T) (r transfer.ImportResult) {
	t.Helper()
	if err := json.Unmarshal([]byte(i.stdout.String()), &r); err != nil {
		t.Fatalf("%v: %s%s", err, i.stdout.String(), i.stderr.String())
	}
	return r
}

// run begins to import, or goes on.
func (g *target) run() *importer {
	g.t.Helper()
	i := &importer{cmd: basalt(g.t, "import", g.d.path, "--to", g.address().Host, "--memory", dumpMemory, "--json",
		"--verify")}
	i.cmd.Stdout, i.cmd.Stderr = &i.stdout, &i.stderr
	require.NoError(g.t, i.cmd.Start())
	return i
}

// runTo begins to import, or goes on, until the server stops at a step of the second chunk. The first one is in the
// server then, and the importer knows.
func (g *target) runTo(step ingeststep.Step) *importer {
	g.t.Helper()
	g.stops.set(g.t, string(ingeststep.Committed))
	i := g.run()
	g.stops.await(g.t, string(ingeststep.Committed))
	g.goTo(ingeststep.Committed, ingeststep.Begun)
	if step != ingeststep.Begun {
		g.goTo(ingeststep.Begun, step)
	}
	return i
}

// goTo lets the server go on from one step to the next one of another name.
func (g *target) goTo(from, to ingeststep.Step) {
	g.t.Helper()
	g.stops.set(g.t, string(to))
	g.stops.remove(string(from))
	g.stops.await(g.t, string(to))
}

// filesDir is the directory of table files that are being written.
func (g *target) filesDir() string { return filepath.Join(g.dir, "importing_files") }

// check looks at all keys of the server: from the beginning of the file up to one of its keys all are there as the
// file has them, and all others are as they were. It returns the number of the former.
func (g *target) check() (came int) {
	g.t.Helper()
	keys := g.keys()
	g.last = keys
	halves := 0
	for i, key := range g.d.keys {
		switch got := keys[key]; {
		case key == g.d.parts: // it grows
		case got == g.d.want[key]:
			if came < i {
				if came+1 != i || g.d.keys[came] != g.d.parts {
					halves++
				}
			}
			came = i + 1
		case got != g.before[key]:
			g.t.Errorf("%s is neither new nor old: %.100s", key, got)
		}
	}
	if halves > 0 {
		g.t.Errorf("%d gaps in what came: a chunk is there in part", halves)
	}
	if came < g.have {
		g.t.Errorf("%d keys have come, and %d before", came, g.have)
	}
	g.have = came
	for key, line := range g.before {
		if g.d.want[key] == "" && keys[key] != line {
			g.t.Errorf("%s, which the file lacks, was %q and is %q", key, line, keys[key])
		}
	}
	for key := range keys {
		if g.before[key] == "" && g.d.want[key] == "" {
			g.t.Errorf("%s has never been", key)
		}
	}
	return came
}

// counted waits until DBSIZE says how many keys check has seen. (While files come, some may be counted twice.)
func (g *target) counted() {
	g.t.Helper()
	c, err := transfer.Dial(g.t.Context(), g.address())
	require.NoError(g.t, err)
	defer c.Close()
	for _, db := range []string{"0", "1"} {
		n := int64(0)
		for key := range g.last {
			if strings.HasPrefix(key, db+" ") {
				n++
			}
		}
		if _, err := c.Do("SELECT", db); err != nil {
			g.t.Fatal(err)
		}
		servertest.Eventually(g.t, fmt.Sprintf("DBSIZE of database %s is %d", db, n), func() bool {
			r, err := c.Do("DBSIZE")
			require.NoError(g.t, err)
			return r.Int == n
		})
	}
}

// gone waits until the table files that were being written are gone.
func (g *target) gone() {
	g.t.Helper()
	servertest.Eventually(g.t, "the table files are gone", func() bool {
		_, err := os.Stat(g.filesDir())
		return os.IsNotExist(err)
	})
}

// answered returns how many keys of the file the importer knows to be in the server.
func (g *target) answered() int {
	g.t.Helper()
	var state struct{ Offset int64 }
	text, err := os.ReadFile(g.d.path + ".import-state")
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	require.NoError(g.t, err)
	n, exact := slices.BinarySearch(g.d.ends, state.Offset)
	if exact {
		n++
	} else if state.Offset > 0 {
		g.t.Errorf("the importer stopped at byte %d, where no key ends", state.Offset)
	}
	return n
}

// end runs the rest of the import, and checks all keys and the files of the server.
func (g *target) end() {
	g.t.Helper()
	i := g.run()
	err := i.cmd.Wait()
	if r := i.result(g.t); err != nil || r.Verified != dumpKeys || r.Resumed == 0 || r.Keys >= dumpKeys {
		g.t.Errorf("%v, %+v, %s", err, r, i.stderr.String())
	}
	if n := g.check(); n != dumpKeys || g.last[g.d.parts] != g.d.want[g.d.parts] {
		g.t.Errorf("%d keys came", n)
	}
	g.gone()
	g.counted()
	if _, err := os.Stat(g.d.path + ".import-state"); !os.IsNotExist(err) {
		g.t.Error("the state of the import stays:", err)
	}
	g.kill()
	if code, out, stderr := call(g.t, "check", g.dir); code != 0 {
		g.t.Errorf("check: %d, %s%s", code, out, stderr)
	}
}

// TestImportKilled kills processes in the midst of an import by table files, and lets replicas come.
func TestImportKilled(t *testing.T) {
	d := newDump(t)
	t.Run("kill", func(t *testing.T) { killImports(t, d) })
	for _, step := range []ingeststep.Step{ingeststep.Committed, ingeststep.Begun, ingeststep.Records, ingeststep.All} {
		if step == ingeststep.Committed || !testing.Short() {
			t.Run("replica/"+string(step), func(t *testing.T) { replicaComes(t, d, step) })
		}
	}
}

// killImports kills the server at each step, then the importer while the server is at one: the same command goes on
// each time.
func killImports(t *testing.T, d *dump) {
	g := newTarget(t, d)
	for _, step := range []ingeststep.Step{ingeststep.Begun, ingeststep.Records, ingeststep.All, ingeststep.Locked,
		ingeststep.Flushed, ingeststep.Moved, ingeststep.Committed} {
		if testing.Short() && step != ingeststep.Flushed && step != ingeststep.Moved {
			continue
		}
		had := g.have
		i := g.runTo(step)
		if _, err := os.Stat(g.filesDir()); err != nil {
			t.Error(err)
		}
		g.kill()
		if err := i.cmd.Wait(); err == nil {
			t.Fatal("the import went on without a server")
		}
		g.stops.remove(string(step))
		g.start()
		if _, err := os.Stat(g.filesDir()); !os.IsNotExist(err) {
			t.Error("table files stay:", err)
		}
		n, know := g.check(), g.answered()
		g.counted()
		moved := step == ingeststep.Moved || step == ingeststep.Committed
		if moved && n <= know || !moved && n != max(know, had) || know == 0 {
			t.Errorf("%d keys had come, the importer knows of %d, and %d are there", had, know, n)
		}
		if t.Failed() {
			t.Fatalf("the server was killed at %q", step)
		}
	}
	for _, step := range []ingeststep.Step{ingeststep.Begun, ingeststep.Records, ingeststep.All, ingeststep.Paused,
		ingeststep.Flushed, ingeststep.Committed} {
		if testing.Short() && step != ingeststep.Records {
			continue
		}
		var i *importer
		if step == ingeststep.Paused {
			i = g.runTo(ingeststep.All)
			g.proc.want("OK", "CLIENT", "PAUSE", "600000", "WRITE")
			g.goTo(ingeststep.All, ingeststep.Paused)
		} else {
			i = g.runTo(step)
		}
		n := -1
		if step != ingeststep.Flushed { // which holds all locks
			n = g.check()
		}
		i.cmd.Process.Kill()
		i.cmd.Wait()
		g.stops.remove(string(step))
		if step == ingeststep.Paused { // the server does not look at the connection
			g.proc.do("CLIENT", "KILL", "SKIPME", "yes")
		}
		g.gone()
		if step == ingeststep.Paused {
			g.proc.want("OK", "CLIENT", "UNPAUSE")
		}
		dropped := step == ingeststep.Begun || step == ingeststep.Records || step == ingeststep.Paused
		if now := g.check(); dropped && now != n {
			t.Errorf("what was begun was not dropped: %d keys, now %d", n, now)
		}
		g.counted()
		if t.Failed() {
			t.Fatalf("the importer was killed at %q", step)
		}
	}
	g.end()
}

// refusedFiles matches the statistics of a server that has refused table files once.
var refusedFiles = regexp.MustCompile(`\r\ncmdstat__ingest:.*,failed_calls=1\r\n`)

func caughtUp(t *testing.T, master, replica *process) {
	t.Helper()
	offset := func(p *process) string {
		_, rest, _ := strings.Cut(p.do("INFO", "replication"), "\r\nmaster_repl_offset:")
		line, _, _ := strings.Cut(rest, "\r\n")
		return line
	}
	servertest.Eventually(t, "the replica has what its master has", func() bool {
		return strings.Contains(replica.do("INFO", "replication"), "master_link_status:up") &&
			offset(replica) == offset(master)
	})
}

// replicaComes lets a replica come at a step of the server. In the end it has what its master has.
func replicaComes(t *testing.T, d *dump, step ingeststep.Step) {
	g := newTarget(t, d)
	i := g.runTo(step)
	_, port, _ := strings.Cut(g.proc.addr, ":")
	replica := start(t, "--dir", t.TempDir(), "--log-dir", "stdout", "--bind", "127.0.0.1", "--redis-databases", "2",
		"--slaveof", "127.0.0.1 "+port)
	caughtUp(t, g.proc, replica)
	g.stops.remove(string(step))
	err := i.cmd.Wait()
	if r := i.result(t); err != nil || r.Keys != dumpKeys || r.Verified != dumpKeys {
		t.Errorf("%v, %+v, %s", err, r, i.stderr.String())
	}
	if n := g.check(); n != dumpKeys {
		t.Errorf("%d keys came", n)
	}
	g.counted()
	if step == ingeststep.Committed && !refusedFiles.MatchString(g.proc.do("INFO", "commandstats")) {
		t.Error("a server with a replica takes table files")
	}
	caughtUp(t, g.proc, replica)
	at := transfer.Address{Network: "tcp", Host: replica.addr}
	if got := keysAt(t, transfer.ExportOptions{Server: &at}); !maps.Equal(got, g.last) {
		t.Errorf("the replica has %d keys, its master %d, or others", len(got), len(g.last))
	}
}
