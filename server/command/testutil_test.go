package command

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/resp"
)

// do runs a command like a connection with RESP2, and returns the bytes of the reply.
func do(t testing.TB, db *engine.DB, args ...string) string {
	t.Helper()
	return doProto(t, db, 2, args...)
}

// do3 is do with RESP3.
func do3(t testing.TB, db *engine.DB, args ...string) string {
	t.Helper()
	return doProto(t, db, 3, args...)
}

func doProto(t testing.TB, db *engine.DB, proto int, args ...string) string {
	t.Helper()
	return doOn(t, testServer(db), proto, args...)
}

// doOn is do on a given server, with a given protocol.
func doOn(t testing.TB, srv *Server, proto int, args ...string) string {
	t.Helper()
	db := srv.DB
	raw := make([][]byte, len(args))
	for i, a := range args {
		raw[i] = []byte(a)
	}
	w := &resp.Writer{Proto: proto}
	spec, err := Resolve(raw)
	if err != nil {
		WriteError(w, err)
		return string(w.Bytes())
	}
	tx := db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	c := &Ctx{Args: raw, Out: w, Tx: tx, Spec: spec, Srv: srv,
		Sess: &Session{ID: 1, Namespace: cf.DefaultNamespace, Admin: true, Authorized: true, Proto: proto}}
	if spec.Flags&(Single|Solo) == 0 {
		for _, k := range spec.AppendKeys(nil, raw) {
			tx.AddLock(raw[k.Arg], k.Write)
		}
		tx.Acquire()
	}
	if spec.Flags&Exclusive != 0 {
		tx.AcquireAll()
	}
	mark := tx.Savepoint()
	if err := spec.Handler(c); err != nil {
		w.Reset()
		require.NoError(t, tx.Rollback(mark))
		WriteError(w, err)
	} else if err := tx.Commit(); err != nil {
		w.Reset()
		WriteError(w, err)
	}
	return string(w.Bytes())
}

// testServer returns a Server for handlers that need only the database, the table and the default settings. Everything
// else panics.
func testServer(db *engine.DB) *Server {
	return &Server{DB: db, Table: DefaultTable(), Settings: testSettings{}}
}

// testSettings are the default settings, with a max length of 512 MiB for strings.
type testSettings struct{ Settings }

func (testSettings) MaxBulk() int64 { return 512 << 20 }

// Databases returns 0: there is only one database.
func (testSettings) Databases() int64 { return 0 }

// Get finds no setting, so handlers use the defaults.
func (testSettings) Get(string) (string, bool) { return "", false }

// writeWith returns what f writes as a RESP2 reply.
func writeWith(t testing.TB, db *engine.DB, f func(c *Ctx)) string {
	t.Helper()
	w := &resp.Writer{Proto: 2}
	f(&Ctx{Out: w, Srv: testServer(db)})
	return string(w.Bytes())
}

// sameLives compares replies of TTL commands, which are rounded to the nearest second. On a busy host each time to live
// may be shorter than wanted by the time that the test took, but not by more.
func sameLives(got, want string, took time.Duration) bool {
	g, w := strings.Split(got, "\r\n"), strings.Split(want, "\r\n")
	if len(g) != len(w) {
		return false
	}
	limit := int((took + time.Second/2) / time.Second)
	for i := range g {
		if g[i] == w[i] {
			continue
		}
		a, err := strconv.Atoi(strings.TrimPrefix(g[i], ":"))
		b, err2 := strconv.Atoi(strings.TrimPrefix(w[i], ":"))
		if err != nil || err2 != nil || !strings.HasPrefix(g[i], ":") || !strings.HasPrefix(w[i], ":") || a <= 0 ||
			b < a || b-a > limit {
			return false
		}
	}
	return true
}

func TestSameLives(t *testing.T) {
	for _, tt := range []struct {
		got, want string
		took      time.Duration
		same      bool
	}{
		{":100\r\n", ":100\r\n", 0, true}, {":99\r\n", ":100\r\n", 0, false}, {":99\r\n", ":100\r\n",
			499 * time.Millisecond, false},
		{":99\r\n", ":100\r\n", 500 * time.Millisecond, true}, {":98\r\n", ":100\r\n", 500 * time.Millisecond, false},
		{":101\r\n", ":100\r\n", time.Hour, false}, {":0\r\n", ":1\r\n", time.Hour, false}, {":-1\r\n", ":1\r\n",
			time.Hour, false},
		{":-2\r\n", ":-1\r\n", time.Hour, false}, {"$2\r\n99\r\n", ":100\r\n", time.Hour, false}, {"-ERR x\r\n",
			":100\r\n", time.Hour, false},
		{"*2\r\n:98\r\n:-1\r\n", "*2\r\n:100\r\n:-1\r\n", 2 * time.Second, true}, {"*1\r\n:98\r\n",
			"*2\r\n:100\r\n:-1\r\n", 2 * time.Second, false},
		{"\r\n", ":1\r\n", time.Hour, false}, {"*1\r\n:98\r\n", "*3\r\n:98\r\n", time.Hour, false},
	} {
		if got := sameLives(tt.got, tt.want, tt.took); got != tt.same {
			t.Errorf("%q for %q after %v: %v", tt.got, tt.want, tt.took, got)
		}
	}
}
