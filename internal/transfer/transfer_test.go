package transfer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/crc64"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/replication/replica"
	"github.com/basaltdb/basalt/server/resp"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if n := engine.LiveObjects(); n != 0 && code == 0 {
		fmt.Fprintln(os.Stderr, n, "native objects are open")
		code = 1
	}
	os.Exit(code)
}

var elems = enginetest.Bytes

// many returns n different strings, enough of them for a value in several parts.
func many(n int) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = fmt.Appendf(nil, "element-%06d-%s", i, strings.Repeat("x", 40))
	}
	return list
}

const manyElems = 24_000

// far is an expiry that does not come during a test.
var far = time.Now().Add(time.Hour).UnixMilli()

const library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)"

// samples are values of all kinds.
func samples() map[string]*rdb.Value {
	big := many(manyElems)
	scores := make([]float64, len(big))
	expires := make([]uint64, len(big)/2)
	stream := &rdb.StreamValue{Last: cf.StreamID{Ms: 1 << 40}, EntriesAdded: uint64(len(big)) + 2,
		MaxDeleted: cf.StreamID{Ms: 1}}
	for i := range big {
		scores[i] = float64(i) / 3
		stream.Entries = append(stream.Entries, rdb.StreamEntry{ID: cf.StreamID{Ms: uint64(i + 2)}, Fields: [][]byte{
			[]byte("f"), big[i]}})
	}
	for i := range expires {
		if i%3 == 0 {
			expires[i] = uint64(far)
		}
	}
	groups := []rdb.StreamGroup{{Name: []byte("g"), Last: cf.StreamID{Ms: 3}, EntriesRead: 3,
		Pending:   []rdb.StreamPending{{ID: cf.StreamID{Ms: 3}, Delivered: 1000, Deliveries: 2}},
		Consumers: []rdb.StreamConsumer{{Name: []byte("c"), Seen: 1000, Active: 1000}}}}
	stream.Groups = groups
	return map[string]*rdb.Value{
		"string": {Kind: rdb.String, String: []byte("v")},
		"bytes":  {Kind: rdb.String, String: []byte{0, 0xff, '\r', '\n'}},
		"long":   {Kind: rdb.String, String: bytes.Repeat([]byte("long"), 1<<19)},
		"hll":    {Kind: rdb.String, String: []byte("HYLL\x01" + strings.Repeat("\x00", 11) + "\x7f\xff")},
		"list":   {Kind: rdb.List, Elems: elems("a", "b", "a")},
		"set":    {Kind: rdb.Set, Elems: elems("a", "1")},
		"zset":   {Kind: rdb.ZSet, Elems: elems("a", "b", "c"), Scores: []float64{1.5, math.Inf(1), math.Copysign(0, -1)}},
		"hash":   {Kind: rdb.Hash, Elems: elems("f", "v", "g", "w")},
		"fields": {Kind: rdb.Hash, Elems: elems("f", "v", "g", "w", "gone", "x"), Expires: []uint64{uint64(far), 0, 1000}},
		"stream": {Kind: rdb.Stream, Stream: &rdb.StreamValue{Entries: stream.Entries[:3], Last: cf.StreamID{Ms: 9},
			EntriesAdded: 7, MaxDeleted: cf.StreamID{Ms: 1}, Groups: groups}},
		"empty stream": {Kind: rdb.Stream, Stream: &rdb.StreamValue{Last: cf.StreamID{Ms: 9}, EntriesAdded: 7}},
		"json":         {Kind: rdb.JSON, String: []byte(`{"a":[1,2,{"b":null}]}`)},
		"tdigest": {Kind: rdb.TDigest, TDigest: &rdb.TDigestValue{Compression: 100, Min: 1, Max: 9, Means: []float64{1, 9},
			Weights: []float64{2, 3}}},
		"cuckoo": {Kind: rdb.Cuckoo, Cuckoo: &rdb.CuckooValue{Items: 1, BucketSize: 2, MaxIterations: 20, Expansion: 1,
			Filters: elems("\x00\x00\x07\x00\x00\x00\x00\x00")}},
		"big list":   {Kind: rdb.List, Elems: big},
		"big set":    {Kind: rdb.Set, Elems: big},
		"big zset":   {Kind: rdb.ZSet, Elems: big, Scores: scores},
		"big hash":   {Kind: rdb.Hash, Elems: big},
		"big fields": {Kind: rdb.Hash, Elems: big, Expires: expires},
		"big stream": {Kind: rdb.Stream, Stream: stream},
	}
}

// sampleFile writes an RDB file with the samples, each without and with an expiry, and what is not imported.
func sampleFile(t *testing.T, path string, all bool, tail string) {
	t.Helper()
	b := []byte("REDIS0012")
	b = rdb.AppendAux(b, "redis-ver", "7.4.0")
	b = rdb.AppendFunction(b, []byte(library))
	values := samples()
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		body, _ := rdb.AppendValue(nil, values[name])
		if len(body) > 1<<20 { // the expiry of these is enough
			b = rdb.AppendKey(b, []byte(name), body, far)
			continue
		}
		b = rdb.AppendKey(b, []byte(name), body, 0)
		b = rdb.AppendKey(b, []byte(name+" expires"), body, far)
		b = rdb.AppendKey(b, []byte(name+" expired"), body, 1000)
	}
	if all { // a bloom filter, of which only the type is known
		b = append(b, "\x07\x05bloom\x81"...)
		b = binary.BigEndian.AppendUint64(b, moduleBloom)
		b = append(b, "\x05\x04bits\x00"...)
	}
	b = append(b, 0xff)
	b = append(binary.LittleEndian.AppendUint64(b, crc64.Update(0, b)), tail...)
	require.NoError(t, os.WriteFile(path, b, 0o600))
}

// moduleBloom is "MBbloom--", encoding 4.
const moduleBloom = 12<<58 | 1<<52 | 27<<46 | 37<<40 | 40<<34 | 40<<28 | 38<<22 | 62<<16 | 62<<10 | 4

// serve serves a new data directory on a socket and returns its address.
func serve(t *testing.T, settings ...string) (*Address, *local) {
	t.Helper()
	l, err := openLocal(t.Context(), filepath.Join(t.TempDir(), "data"), "", true, settings...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := l.close(); err != nil {
			t.Error(err)
		}
	})
	return &Address{Network: "unix", Host: filepath.Join(l.tmp, "socket")}, l
}

func mustImport(t *testing.T, o ImportOptions) *ImportResult {
	t.Helper()
	if o.Memory == 0 {
		o.Memory = 256 << 20
	}
	r, err := Import(t.Context(), o)
	require.NoError(t, err)
	if r.Errors.Count > 0 || r.Differ.Count > 0 {
		t.Fatalf("errors %q, differences %q", r.Errors.First, r.Differ.First)
	}
	return r
}

func export(t *testing.T, o ExportOptions) string {
	t.Helper()
	var b bytes.Buffer
	o.Out, o.DB = &b, -1
	if o.Version == 0 {
		o.Version = 12
	}
	if _, err := Export(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestImport imports a file into a server and, with much and with little memory, into directories: all hold the same.
func TestImport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dump.rdb")
	sampleFile(t, path, true, "")
	address, l := serve(t)
	const large = 7 // samples that are there once only
	n := int64(len(samples()) - large)
	o := ImportOptions{Path: path, DB: -1, SkipUnknown: true, Verify: true}
	check := func(r *ImportResult) {
		t.Helper()
		if r.Keys != 2*n+large || r.Expired != n || r.Libraries != 1 || r.Verified != 2*n+large || len(r.Reasons()) != 1 ||
			!strings.Contains(r.Reasons()[0], "bloom") {
			t.Errorf("%+v", r)
		}
	}
	o.Server = address
	check(mustImport(t, o))
	check(mustImport(t, o)) // once more, over what is there
	if _, err := os.Stat(path + ".import-state"); !os.IsNotExist(err) {
		t.Error("the state stays:", err)
	}
	want := withoutTimes(export(t, ExportOptions{Server: address, Format: "jsonl"}))
	for _, key := range []string{"hll", "tdigest expires", "cuckoo"} { // that jsonl lacks, or does not tell
		if r, err := l.Conn.Do("TYPE", key); err != nil || string(r.Text) == "none" {
			t.Error(key, string(r.Text), err)
		}
	}
	o.Server = nil
	for _, memory := range []int{256 << 20, 3 << 20} {
		o.Dir, o.Memory = filepath.Join(t.TempDir(), "data"), memory
		check(mustImport(t, o))
		if got := withoutTimes(export(t, ExportOptions{Dir: o.Dir, Format: "jsonl"})); got != want {
			t.Errorf("with %d bytes of memory something else is there: %s", memory, difference(got, want))
		}
		entries, err := os.ReadDir(o.Dir)
		// The second file tells a server that follows a master later to synchronise in full.
		if err != nil || len(entries) != 2 || entries[0].Name() != "db" || entries[1].Name() != "own_writes" {
			t.Error("files stay:", entries, err)
		}
		if _, err := Import(t.Context(), o); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Error("imported twice:", err)
		}
	}
}

// difference shows the first line that differs.
func difference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d is %.300s, not %.300s", i, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, not %d", len(a), len(b))
}

// TestExport exports in all formats and imports that: nothing is lost.
func TestExport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dump.rdb")
	sampleFile(t, path, false, "")
	address, _ := serve(t)
	mustImport(t, ImportOptions{Path: path, DB: -1, Server: address})
	want := export(t, ExportOptions{Server: address, Format: "jsonl"})
	for _, format := range []string{"rdb", "resp"} {
		file := filepath.Join(t.TempDir(), "out."+format)
		require.NoError(t, os.WriteFile(file, []byte(export(t, ExportOptions{Server: address, Format: format})), 0o600))
		other, _ := serve(t)
		mustImport(t, ImportOptions{Path: file, DB: -1, Server: other})
		got := export(t, ExportOptions{Server: other, Format: "jsonl"})
		lost := want
		if format == "rdb" {
			lost = withoutJSON(want)
		}
		if cut := withoutTimes(got); cut != withoutTimes(lost) {
			t.Errorf("%s: %s", format, difference(cut, withoutTimes(lost)))
		}
	}
}

// withoutJSON leaves out the lines of JSON documents, for which Redis has no form.
func withoutJSON(lines string) string {
	return strings.Join(slices.DeleteFunc(strings.SplitAfter(lines, "\n"), func(s string) bool {
		return strings.Contains(s, `"type":"json"`)
	}), "")
}

// withoutTimes leaves out when consumers were seen, which commands cannot say.
func withoutTimes(lines string) string {
	all := strings.SplitAfter(lines, "\n")
	for i, s := range all {
		for _, name := range []string{`"seen_ms":`, `"active_ms":`} {
			for from := 0; ; {
				at := strings.Index(s[from:], name)
				if at < 0 {
					break
				}
				from += at + len(name)
				end := from + strings.IndexAny(s[from:], ",}")
				s = s[:from] + s[end:]
			}
		}
		all[i] = s
	}
	return strings.Join(all, "")
}

// TestRedis loads an exported file in a real redis-server, and imports what that saves.
func TestRedis(t *testing.T) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server")
	}
	path := filepath.Join(t.TempDir(), "dump.rdb")
	sampleFile(t, path, false, "")
	address, _ := serve(t)
	mustImport(t, ImportOptions{Path: path, DB: -1, Server: address})
	dir, err := os.MkdirTemp("", "redis")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	file, err := os.Create(filepath.Join(dir, "dump.rdb"))
	require.NoError(t, err)
	r, err := Export(t.Context(), ExportOptions{Server: address, Format: "rdb", Version: 10, DB: -1, Out: file})
	if err != nil || file.Close() != nil {
		t.Fatal(err)
	}
	if reasons := strings.Join(r.Reasons(), "\n"); !strings.Contains(reasons, "type ReJSON-RL") ||
		!strings.Contains(reasons, "type TDIS-TYPE") || !strings.Contains(reasons, "expiries of the fields") {
		t.Error(reasons)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(binary, "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	var log bytes.Buffer
	logged := make(chan struct{})
	go func() { io.Copy(&log, out); close(logged) }()
	redis := &Address{Network: "unix", Host: socket}
	var c *resp.Conn
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if c, err = Dial(t.Context(), *redis); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		<-logged
		t.Fatalf("%v\n%s", err, &log)
	}
	reply, err := c.Do("DBSIZE")
	if err != nil || reply.Int != r.Keys {
		t.Errorf("redis has %d keys of %d: %v", reply.Int, r.Keys, err)
	}
	if _, err := c.Do("SAVE"); err != nil {
		t.Error(err)
	}
	other, _ := serve(t)
	back := mustImport(t, ImportOptions{Path: file.Name(), DB: -1, Server: other, Verify: true})
	if back.Keys != r.Keys || back.Libraries != 1 {
		t.Errorf("%+v", back)
	}
	got := export(t, ExportOptions{Server: other, Format: "jsonl"})
	if want := export(t, ExportOptions{Server: redis, Format: "jsonl"}); sorted(got) != sorted(want) {
		t.Error(difference(sorted(got), sorted(want)))
	}
	c.Send("SHUTDOWN", "NOSAVE")
	c.Flush()
	cmd.Wait()
}

func sorted(lines string) string {
	all := strings.SplitAfter(withoutTimes(lines), "\n")
	// Redis's sets and hashes have no order.
	for i, s := range all {
		if strings.Contains(s, `"type":"set"`) || strings.Contains(s, `"type":"hash"`) ||
			strings.Contains(s, `"type":"zset"`) {
			b := []byte(s)
			slices.Sort(b)
			all[i] = string(b)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// TestAppendOnly imports an append-only file in several parts, of which the base is an RDB file, and one that ends with
// a transaction that was cut off.
func TestAppendOnly(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	command := func(args ...string) string { return string(resp.AppendCommand(nil, args...)) }
	sampleFile(t, filepath.Join(dir, "a.1.base.rdb"), false, command("SET", "string", "w"))
	write("a.1.incr.aof", "#TS:1700000000\r\n"+command("SELECT", "0")+command("INCR", "n")+command("INCR", "n"))
	write("a.2.incr.aof", command("INCR", "n")+command("MULTI")+command("INCR", "n")+command("EXEC")+
		command("LPUSH", "string", "x")+command("MULTI")+command("INCR", "n")+"*2\r\n$4\r\nINC")
	write("a.manifest", "file a.1.base.rdb seq 1 type b\nfile old.aof seq 9 type h\n"+
		"file a.1.incr.aof seq 1 type i\nfile \"a.2.incr.aof\" seq 2 type i\n")
	address, l := serve(t)
	for _, o := range []ImportOptions{{Path: dir, Server: address}, {Path: filepath.Join(dir, "a.manifest"),
		Dir: filepath.Join(t.TempDir(), "data")}} {
		o.DB, o.Memory = -1, 64<<20
		r, err := Import(t.Context(), o)
		require.NoError(t, err)
		if r.Errors.Count != 1 || !strings.Contains(r.Errors.First[0], "LPUSH string: WRONGTYPE") || len(r.Warnings) != 1 ||
			r.Commands != 11 {
			t.Errorf("%+v %q", r, r.Errors.First)
		}
		if o.Dir != "" {
			if l, err = openLocal(t.Context(), o.Dir, "", true); err != nil {
				t.Fatal(err)
			}
			defer l.close()
		}
		if r, err := l.Conn.Do("MGET", "n", "string"); err != nil || string(r.Elems[0].Text) != "4" ||
			string(r.Elems[1].Text) != "w" {
			t.Errorf("%v, %v", r.Elems, err)
		}
	}
}

// TestDirectoryOfReplica: a directory is filled and exported with the configuration of a replica, or of a node of a
// cluster, without asking another server.
func TestDirectoryOfReplica(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	asked := make(chan struct{}, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
			select {
			case asked <- struct{}{}:
			default:
			}
		}
	}()
	temp := t.TempDir()
	path := filepath.Join(temp, "a.rdb")
	sampleFile(t, path, false, string(resp.AppendCommand(nil, "SET", "string", "w")))
	want := ""
	for _, tt := range []struct{ name, settings string }{
		{"alone", "# nothing"},
		{"replica", fmt.Sprintf("slaveof 127.0.0.1 %d", l.Addr().(*net.TCPAddr).Port)},
		{"cluster", "cluster-enabled yes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, dir := filepath.Join(temp, tt.name+".conf"), filepath.Join(temp, tt.name)
			require.NoError(t, os.WriteFile(file, []byte("bind 127.0.0.1\n"+tt.settings+"\n"), 0o600))
			mustImport(t, ImportOptions{Path: path, Dir: dir, Config: file, DB: -1})
			got := sorted(withoutTimes(export(t, ExportOptions{Dir: dir, Config: file, Format: "jsonl"})))
			if want == "" {
				want = got
			}
			if got != want || !strings.Contains(got, `"key":"string"`) {
				t.Error(difference(got, want))
			}
			select {
			case <-asked:
				t.Error("the master was asked")
			default:
			}
		})
	}
}

// TestResume cuts imports off at several places: going on, they do all commands once.
func TestResume(t *testing.T) {
	const n = 40_000
	path := filepath.Join(t.TempDir(), "commands")
	var b []byte
	for range n {
		b = resp.AppendCommand(b, "INCR", "n")
	}
	require.NoError(t, os.WriteFile(path, b, 0o600))
	address, l := serve(t)
	o := ImportOptions{Path: path, DB: -1, Server: address}
	for stop := int64(1 << 18); ; stop += 1 << 18 {
		ctx, cancel := context.WithCancel(t.Context())
		done := int64(0)
		o.Progress = func(_ string, n, _ int64) {
			if done += n; done >= stop {
				cancel()
			}
		}
		r, err := Import(ctx, o)
		cut := ctx.Err() != nil
		cancel()
		if err == nil {
			if r.Resumed == 0 {
				t.Error("it was never resumed")
			}
			break
		}
		if !cut || !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if len(r.Warnings) > 0 {
			t.Error(r.Warnings)
		}
	}
	if r, err := l.Conn.Do("GET", "n"); err != nil || string(r.Text) != fmt.Sprint(n) {
		t.Errorf("%s, %v", r.Text, err)
	}
	// Another file does not go on where this one was.
	require.NoError(t, os.WriteFile(path+".import-state", []byte(`{"to":"elsewhere"}`), 0o600))
	o.Progress = nil
	if _, err := Import(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--restart") {
		t.Error(err)
	}
}

// TestResumeOtherDatabase: an import of another database of the same file begins at its beginning.
func TestResumeOtherDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "commands")
	require.NoError(t, os.WriteFile(path, resp.AppendCommand(nil, "INCR", "n"), 0o600))
	o := ImportOptions{Path: path, Server: &Address{}, DB: 1}
	files := []File{{Path: path}}
	s, err := loadState(&o, files)
	require.NoError(t, err)
	s.Offset = 5
	require.NoError(t, s.save())
	if s, err = loadState(&o, files); err != nil || s.Offset != 5 {
		t.Errorf("%+v, %v", s, err)
	}
	o.DB = 0
	if _, err := loadState(&o, files); err == nil || !strings.Contains(err.Error(), "--restart") {
		t.Error(err)
	}
}

// TestResumeInDatabase: an import that goes on does so in the database that was selected, not in that of the address.
func TestResumeInDatabase(t *testing.T) {
	const n = 100_000 // more than is read at once
	path := filepath.Join(t.TempDir(), "commands")
	b := resp.AppendCommand(nil, "SELECT", "0")
	for range n {
		b = resp.AppendCommand(b, "INCR", "n")
	}
	require.NoError(t, os.WriteFile(path, b, 0o600))
	address, l := serve(t, "--redis-databases", "4")
	address.DB = 3
	ctx, cancel := context.WithCancel(t.Context())
	o := ImportOptions{Path: path, DB: -1, Server: address, Progress: func(_ string, _, _ int64) { cancel() }}
	if _, err := Import(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	o.Progress = nil
	if r := mustImport(t, o); r.Resumed == 0 {
		t.Error("it was not resumed")
	}
	if r, err := l.Conn.Do("GET", "n"); err != nil || string(r.Text) != fmt.Sprint(n) {
		t.Errorf("%s, %v", r.Text, err)
	}
}

// TestImportErrors imports what is wrong. A directory is as it was before.
func TestImportErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	body, _ := rdb.AppendValue(nil, &rdb.Value{Kind: rdb.String, String: []byte("v")})
	key := string(rdb.AppendKey(nil, []byte("k"), body, 0))
	for _, tt := range []struct{ name, file, want string }{
		{"nothing of ours", "\x7fELF\x02\x01\x01", "neither an RDB file"},
		{"later version", "REDIS0099" + key, "version \"0099\""},
		{"type of later versions", "REDIS0012" + key + "\x1a\x01k", "stream of Redis 8.6"},
		{"cut off", "REDIS0012" + key + "\x00\x01", "malformed"},
		{"checksum", "REDIS0012" + key + "\xff12345678", "wrong checksum"},
		{"twice", "REDIS0012" + key + key + "\xff" + strings.Repeat("\x00", 8), "twice"},
		{"something behind", "REDIS0012" + key + "\xff" + strings.Repeat("\x00", 8) + "\x01", "no command"},
	} {
		require.NoError(t, os.WriteFile(path, []byte(tt.file), 0o600))
		data := filepath.Join(t.TempDir(), "data")
		_, err := Import(t.Context(), ImportOptions{Path: path, DB: -1, Dir: data, Memory: 1 << 20})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if _, err := os.Stat(data); !os.IsNotExist(err) {
			t.Errorf("%s: %s is there", tt.name, data)
		}
	}
	for _, text := range []string{"", "file x seq 1 type z\n", "file ../x seq 1 type b\n", "seq 1 type b\n",
		"file a seq x type i",
		"file a seq 1\n"} {
		require.NoError(t, os.WriteFile(path+".manifest", []byte(text), 0o600))
		if files, err := Files(path + ".manifest"); err == nil {
			t.Errorf("%q: %v", text, files)
		}
	}
}

// atRead calls a function before each read.
type atRead struct {
	io.Reader
	f func()
}

func (r atRead) Read(b []byte) (int, error) {
	r.f()
	return r.Reader.Read(b)
}

// TestImportUnfinished: until an import into a directory has ended, no server begins to serve the directory.
func TestImportUnfinished(t *testing.T) {
	body, _ := rdb.AppendValue(nil, &rdb.Value{Kind: rdb.String, String: []byte("v")})
	file := "REDIS0012" + string(rdb.AppendKey(nil, []byte("k"), body, 0)) + "\xff" + strings.Repeat("\x00", 8)
	cfg, err := localConfig(filepath.Join(t.TempDir(), "data"), "")
	require.NoError(t, err)
	reads := 0
	stdin := atRead{iotest.OneByteReader(strings.NewReader(file)), func() {
		if _, err := os.Stat(cfg.Dir()); err != nil {
			return // the kind of the file is being found out
		}
		reads++
		if _, err := cfg.PrepareDir(); err == nil || !strings.Contains(err.Error(), "has not ended") {
			t.Errorf("read %d: %v", reads, err)
		}
	}}
	if _, err := Import(t.Context(), ImportOptions{Path: "-", Stdin: stdin, DB: -1, Dir: cfg.Dir(),
		Memory: 1 << 20}); err != nil || reads == 0 {
		t.Fatalf("%v after %d reads", err, reads)
	}
	entries, err := os.ReadDir(cfg.Dir())
	if err != nil || len(entries) != 2 || entries[0].Name() != "db" || entries[1].Name() != replica.OwnWrites {
		t.Errorf("the directory holds %v, %v", entries, err)
	}
}

func FuzzCommands(f *testing.F) {
	for _, s := range []string{"*1\r\n$4\r\nPING\r\n", "#TS:1\r\nSET \"a\\x00\" b\n", "*-1\r\n*0\r\n",
		"*2\r\n$3\r\nGET\r\n$1\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c := newCommandReader(bytes.NewReader(b), 0)
		for {
			raw, args, err := c.next()
			if err != nil {
				return
			}
			if len(raw) == 0 || len(args) == 0 || c.offset > int64(len(b)) {
				t.Fatalf("%q %q at %d", raw, args, c.offset)
			}
		}
	})
}

// TestExportReadOnly: a directory in which nothing may be written is exported, and is as it was.
func TestExportReadOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l, err := openLocal(t.Context(), dir, "", true)
	require.NoError(t, err)
	for i := range 100 {
		if _, err := l.Conn.Do("SET", fmt.Sprint("k", i), "v"); err != nil {
			t.Fatal(err)
		}
	}
	require.NoError(t, l.close())
	want := export(t, ExportOptions{Dir: dir, Format: "resp"})
	files := func() (list []string) {
		err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
			if err == nil {
				list = append(list, fmt.Sprint(path, info.Size(), info.ModTime()))
			}
			return err
		})
		require.NoError(t, err)
		return list
	}
	for _, d := range []string{dir, filepath.Join(dir, "db")} {
		require.NoError(t, os.Chmod(d, 0o555))
		defer os.Chmod(d, 0o755)
	}
	old := mayWrite
	defer func() { mayWrite = old }()
	mayWrite = func(path string) bool { return !strings.HasPrefix(path, dir) && old(path) }
	before := files()
	if got := export(t, ExportOptions{Dir: dir, Format: "resp"}); got != want {
		t.Error(difference(got, want))
	}
	if after := files(); !slices.Equal(before, after) {
		t.Errorf("the directory was %q, is %q", before, after)
	}
}
