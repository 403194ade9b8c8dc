package command

import (
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/resp"
)

// do runs a command as a connection that speaks RESP2 would, and returns the bytes of the reply.
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
	return doOn(t, testServer{db: db}, proto, args...)
}

// doOn is do on a server of its own, in either protocol.
func doOn(t testing.TB, srv Server, proto int, args ...string) string {
	t.Helper()
	db := srv.DB()
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
		if err := tx.Rollback(mark); err != nil {
			t.Fatal(err)
		}
		WriteError(w, err)
	} else if err := tx.Commit(); err != nil {
		w.Reset()
		WriteError(w, err)
	}
	return string(w.Bytes())
}

// testServer is a Server for handlers that need no more than the database and the limits; what else they call
// panics.
type testServer struct {
	Server
	db *engine.DB
}

func (s testServer) DB() *engine.DB { return s.db }

func (s testServer) MaxBulk() int64 { return 512 << 20 }

// Databases says that there is one.
func (testServer) Databases() int64 { return 0 }

// Setting knows no settings: those that a handler asks for have their defaults.
func (testServer) Setting(string) (string, bool) { return "", false }

// writeWith returns what f writes as a RESP2 reply.
func writeWith(t testing.TB, db *engine.DB, f func(c *Ctx)) string {
	t.Helper()
	w := &resp.Writer{Proto: 2}
	f(&Ctx{Out: w, Srv: testServer{db: db}})
	return string(w.Bytes())
}
