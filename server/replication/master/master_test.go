package master_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/wire/wiretest"
)

// replica is the other end of a link, played by a test.
type replica struct {
	t     *testing.T
	conn  net.Conn
	buf   []byte
	ended chan struct{}
	next  uint64 // what comes next
}

// connect makes a master feed a replica from a sequence number on, and waits for its OK.
func connect(t *testing.T, m *master.Master, next uint64, conf proto.Conf) *replica {
	t.Helper()
	p := proto.PSync{Next: next}
	require.NoError(t, m.Accept(p))
	ours, theirs := net.Pipe()
	r := &replica{t: t, conn: theirs, ended: make(chan struct{}), next: next}
	go func() {
		m.Feed(wiretest.Link{Conn: ours}, master.Peer{Conf: conf, Remote: "10.0.0.1:1234"}, p)
		close(r.ended)
	}()
	ok := make([]byte, len(proto.OK))
	if _, err := io.ReadFull(theirs, ok); err != nil || string(ok) != proto.OK {
		t.Fatalf("%q, %v", ok, err)
	}
	return r
}

// frame reads a frame.
func (r *replica) frame() (proto.Frame, error) {
	for {
		f, n, _, err := proto.ReadFrame(r.buf, 64<<20)
		if _, ok := errors.AsType[proto.EndError](err); ok {
			return f, err
		}
		if err != nil {
			r.t.Fatal(err)
		}
		if n > 0 {
			f.Payload = bytes.Clone(f.Payload)
			r.buf = r.buf[n:]
			return f, nil
		}
		b := make([]byte, 64<<10)
		n, err = r.conn.Read(b)
		if err != nil {
			return f, err
		}
		r.buf = append(r.buf, b[:n]...)
	}
}

// batches reads batches up to the one that ends with a sequence number, and checks that none is missing.
func (r *replica) batches(last uint64) (all [][]byte) {
	r.t.Helper()
	for r.next <= last {
		f, err := r.frame()
		if err != nil {
			r.t.Fatalf("after %d: %v", r.next-1, err)
		}
		if f.Kind != proto.KindBatch {
			continue
		}
		if f.Sequence() != r.next {
			r.t.Fatalf("a batch of sequence number %d, want %d", f.Sequence(), r.next)
		}
		r.next += uint64(f.Count())
		all = append(all, f.Payload)
	}
	return all
}

// untilEnd reads until the master closes the link or sends the reason for it.
func (r *replica) untilEnd() error {
	for {
		if _, err := r.frame(); err != nil {
			<-r.ended
			return err
		}
	}
}

func (r *replica) ack(seq uint64) {
	if _, err := r.conn.Write(proto.AppendAck(nil, seq)); err != nil {
		r.t.Error(err)
	}
}

func (r *replica) leave() {
	r.conn.Close()
	<-r.ended
}

func newMaster(t *testing.T, db *engine.DB, s master.Settings) (*master.Master,
	*observer.ObservedLogs) {
	core, logs := observer.New(zap.InfoLevel)
	m := master.New(master.Options{DB: db, Log: zap.New(core),
		CheckpointDir: filepath.Join(t.TempDir(), "checkpoint")}, s)
	return m, logs
}

var defaults = master.Settings{BacklogBytes: 4 << 20, SendTimeout: 30 * time.Second, MaxLag: 1e8,
	MaxAckAge: 10 * time.Second, ShareFor: 10 * time.Minute}

// put writes keys, each in its own batch.
func put(t testing.TB, db *engine.DB, n, size int) {
	t.Helper()
	for i := range n {
		key := fmt.Appendf(nil, "key%d", i)
		enginetest.Update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
			tx.Put(cf.Metadata, tx.NSKey(key), append(make([]byte, 5), bytes.Repeat([]byte{byte(i)}, size)...))
			return nil
		})
	}
}

// TestFeed: a replica gets the same batches as in the log: those written before it connected, while it was connected,
// and while it was away.
func TestFeed(t *testing.T) {
	db := enginetest.Open(t)
	m, _ := newMaster(t, db, defaults)
	defer m.Close()
	put(t, db, 100, 10)
	r := connect(t, m, 1, proto.Conf{Port: 6666})
	all := r.batches(100)
	put(t, db, 100, 10)
	all = append(all, r.batches(200)...)
	r.leave()
	put(t, db, 100, 10)
	r = connect(t, m, 201, proto.Conf{Port: 6666})
	all = append(all, r.batches(300)...)
	if !slices.EqualFunc(all, enginetest.LogFrom(t, db, 0), bytes.Equal) {
		t.Error("what was sent is not what is in the log")
	}
	if got := m.Replicas(); len(got) != 1 || got[0].IP != "10.0.0.1" || got[0].Port != 6666 || got[0].Offset != 300 ||
		got[0].Acks {
		t.Errorf("%+v", got)
	}
	r.leave()
	if m.Connected() != 0 || m.Stats().BacklogBytes != 0 || m.Stats().SyncPartialOK != 2 {
		t.Errorf("%d are connected, %+v", m.Connected(), m.Stats())
	}
}

// TestFeedWhileWriting: with many writers, some of them outside the groups, a backlog that is much too small, and
// replicas that come and go, no batch is missing or repeated.
func TestFeedWhileWriting(t *testing.T) {
	db := enginetest.Open(t)
	s := defaults
	s.BacklogBytes = 1 // one chunk
	m, _ := newMaster(t, db, s)
	defer m.Close()
	const writers, each = 8, 1500
	done := make(chan struct{})
	go func() {
		defer close(done)
		errs := make(chan error, writers)
		for w := range writers {
			go func() {
				for i := range each {
					key := fmt.Appendf(nil, "key%d", w)
					err := db.Update(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
						if w == 0 {
							tx.YieldToOthers()
						}
						tx.Put(cf.Metadata, tx.NSKey(key), append(make([]byte, 5), fmt.Sprint(i, strings.Repeat("x", 300))...))
						return nil
					})
					if err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		for range writers {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	}()
	steady := connect(t, m, 1, proto.Conf{})
	finished := make(chan [][]byte)
	go func() { finished <- steady.batches(writers * each) }()
	var parts [][]byte
	for next := uint64(1); next <= writers*each; {
		if next > db.LatestSequence() {
			continue
		}
		r := connect(t, m, next, proto.Conf{})
		parts = append(parts, r.batches(min(next+500, db.LatestSequence()))...)
		next = r.next
		r.leave()
	}
	<-done
	all := <-finished
	records := func(batches [][]byte) (b []byte) {
		for _, rep := range batches {
			b = append(b, rep[12:]...)
		}
		return b
	}
	want := records(enginetest.LogFrom(t, db, 0))
	if !bytes.Equal(records(all), want) {
		t.Error("the replica that was always there has something else than the log")
	}
	if !bytes.Equal(records(parts), want) {
		t.Error("the replica that came and went has something else than the log")
	}
	steady.leave()
}

// TestBatchInParts: a batch of the log of which a replica has the beginning is sent in part.
func TestBatchInParts(t *testing.T) {
	db := enginetest.Open(t)
	m, _ := newMaster(t, db, defaults)
	defer m.Close()
	enginetest.Update(t, db, enginetest.Bytes("a"), func(tx *engine.Tx) error {
		for i := range 3 {
			tx.LogData(fmt.Appendf(nil, "1 %d", i))
			tx.Put(cf.Metadata, tx.NSKey(fmt.Appendf(nil, "k%d", i)), make([]byte, 6))
		}
		return nil
	})
	r := connect(t, m, 3, proto.Conf{})
	got := r.batches(3)[0]
	if binary.LittleEndian.Uint32(got[8:]) != 1 || !bytes.Contains(got, []byte("k2")) ||
		!bytes.Contains(got, []byte("1 2")) || bytes.Contains(got, []byte("k1")) {
		t.Errorf("%q", got)
	}
	r.leave()
}

// TestAccept: PSYNC is accepted and refused as in Kvrocks.
func TestAccept(t *testing.T) {
	db := enginetest.Open(t)
	m, _ := newMaster(t, db, defaults)
	defer m.Close()
	const id, other = "AAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBB"
	db.BeginHistory(id)
	put(t, db, 9, 1) // up to 10
	for _, tt := range []struct {
		p    proto.PSync
		want error
	}{
		{proto.PSync{Next: 1}, nil},
		{proto.PSync{Next: 10}, nil},
		{proto.PSync{Next: 11}, nil},
		{proto.PSync{Next: 0}, proto.ErrOutOfRange},
		{proto.PSync{Next: 12}, proto.ErrOutOfRange},
		{proto.PSync{Next: 1<<64 - 1}, proto.ErrOutOfRange},
		{proto.PSync{ID: id, Next: 5}, nil},
		{proto.PSync{ID: id, Next: 11}, nil},
		{proto.PSync{ID: other, Next: 1}, proto.ErrWrongID},
		{proto.PSync{ID: other, Next: 11}, proto.ErrWrongID},
		{proto.PSync{ID: other, Next: 12}, proto.ErrOutOfRange}, // the log does not tell
	} {
		if err := m.Accept(tt.p); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.p, err, tt.want)
		}
	}
}

// TestAcceptWithoutID: a write that was made without use-rsid-psync is not that of a replica whose write has an id.
func TestAcceptWithoutID(t *testing.T) {
	const id, old = "AAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBB"
	for _, tt := range []struct {
		before, after string // the ids of the histories of the master before and after the writes without
		id            string // of the replica
		next          uint64
		want          error
	}{
		{"", "", "", 4, nil},
		{"", "", id, 4, proto.ErrWrongID},
		{"", "", id, 3, proto.ErrWrongID},
		{"", old, id, 4, proto.ErrWrongID},
		{"", old, "", 4, nil},
		{old, "", old, 5, nil}, // it holds the id that the database holds
		{old, "", id, 5, proto.ErrWrongID},
	} {
		db := enginetest.Open(t)
		m, _ := newMaster(t, db, defaults)
		defer m.Close()
		n := 3
		if tt.before != "" {
			db.BeginHistory(tt.before)
			put(t, db, 1, 1)
			db.SetReplicationID("")
			n = 2
		}
		put(t, db, n, 1)
		if tt.after != "" {
			db.BeginHistory(tt.after)
			put(t, db, 1, 1)
		}
		if err := m.Accept(proto.PSync{ID: tt.id, Next: tt.next}); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// TestAcceptWithoutLog: the database tells the history of its newest write when the log was deleted behind that.
func TestAcceptWithoutLog(t *testing.T) {
	o := engine.DefaultRocksOptions()
	o.WALTTLSeconds, o.WALSizeLimitMB = 0, 0
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Rocks: o})
	m, _ := newMaster(t, db, defaults)
	defer m.Close()
	const id, other = "AAAAAAAAAAAAAAAA", "BBBBBBBBBBBBBBBB"
	db.BeginHistory(id)
	put(t, db, 3, 1) // up to 4
	for _, family := range []cf.ID{cf.Metadata, cf.Propagate} {
		require.NoError(t, db.FlushMemtable(family))
	}
	if all := enginetest.LogFrom(t, db, 0); len(all) != 0 {
		t.Fatalf("the log has %d batches", len(all))
	}
	for _, tt := range []struct {
		id   string
		want error
	}{{id, nil}, {other, proto.ErrWrongID}, {"", nil}} {
		if err := m.Accept(proto.PSync{ID: tt.id, Next: 5}); !errors.Is(err, tt.want) {
			t.Errorf("%q: %v, want %v", tt.id, err, tt.want)
		}
	}
	db.BeginHistory(other) // which no write has begun
	if err := m.Accept(proto.PSync{ID: id, Next: 5}); err != nil {
		t.Error(err)
	}
}

// TestPurgedLog: a replica that needs writes which the log no longer contains is refused.
func TestPurgedLog(t *testing.T) {
	o := engine.DefaultRocksOptions()
	o.WALTTLSeconds, o.WALSizeLimitMB = 0, 0
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Rocks: o})
	m, _ := newMaster(t, db, defaults)
	defer m.Close()
	put(t, db, 3, 1)
	require.NoError(t, db.FlushMemtable(cf.Metadata))
	put(t, db, 3, 1)
	if err := m.Accept(proto.PSync{Next: 1}); !errors.Is(err, proto.ErrOutOfRange) {
		t.Error(err)
	}
	if err := m.Accept(proto.PSync{Next: 4}); err != nil {
		t.Error(err)
	}
	m.Set(master.Settings{NoLog: true})
	if err := m.Accept(proto.PSync{Next: 7}); err == nil {
		t.Error("a master without a log accepts a replica")
	}
}

// TestPings: an idle link gets a ping every 2 s, a busy link none.
func TestPings(t *testing.T) {
	db := enginetest.Open(t)
	synctest.Test(t, func(t *testing.T) {
		m, _ := newMaster(t, db, defaults)
		defer m.Close()
		r := connect(t, m, 1, proto.Conf{})
		for range 3 {
			began := time.Now()
			f, err := r.frame()
			if err != nil || f.Kind != proto.KindPing {
				t.Fatalf("%+v, %v", f, err)
			}
			if took := time.Since(began); took != 2*time.Second {
				t.Errorf("a ping after %v", took)
			}
		}
		r.leave()
	})
}

// TestRecordedStream: batches that a Kvrocks has sent, when written here, are sent byte by byte in the same way.
func TestRecordedStream(t *testing.T) {
	for _, name := range []string{fixture.PlainReplication, fixture.RSIDReplication} {
		step, ok := fixture.LoadReplication(t, name).Step("psync 1")
		if !ok {
			t.Fatal("there is no stream")
		}
		db := enginetest.Open(t)
		m, _ := newMaster(t, db, defaults)
		want := bytes.TrimPrefix(step.Received, []byte(proto.OK))
		r := connect(t, m, 1, proto.Conf{})
		var got []byte
		for rest := want; len(rest) > 0; {
			f, n, _, err := proto.ReadFrame(rest, 1<<20)
			if err != nil || n == 0 {
				t.Fatal(n, err)
			}
			rest = rest[n:]
			if f.Kind != proto.KindBatch {
				got = append(got, proto.AppendFrame(nil, f.Payload)...)
				continue
			}
			apply(t, db, f.Payload)
			for _, b := range r.batches(f.Sequence() + uint64(f.Count()) - 1) {
				got = proto.AppendFrame(got, b)
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: sent\n%.200q\nrecorded\n%.200q", name, got, want)
		}
		r.leave()
		m.Close()
	}
}

// apply applies a batch as a replica does.
func apply(t *testing.T, db *engine.DB, rep []byte) {
	t.Helper()
	b, err := db.CheckBatch(rep)
	require.NoError(t, err)
	tx := db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	require.NoError(t, tx.AcquireFor(b))
	require.NoError(t, tx.Apply(b))
	require.NoError(t, tx.Commit())
}

// TestSuspend: while the database is replaced no replica is served, and state of the old database is dropped.
func TestSuspend(t *testing.T) {
	db := enginetest.Open(t)
	m, _ := newMaster(t, db, defaults)
	defer m.Close()
	put(t, db, 10, 10)
	r := connect(t, m, 1, proto.Conf{})
	r.batches(10)
	fetch(t, m.SendList)
	resume := m.Suspend()
	r.untilEnd()
	if err := m.Accept(proto.PSync{Next: 1}); !errors.Is(err, engine.ErrLoading) {
		t.Error(err)
	}
	if got := fetch(t, m.SendList); len(got) > 0 {
		t.Errorf("%q", got)
	}
	resume()
	if got := fetch(t, func(l master.Link) { m.SendFiles(l, []byte("CURRENT")) }); got[0] != '-' {
		t.Errorf("the checkpoint of the old database is still there: %q", got)
	}
	r = connect(t, m, 1, proto.Conf{})
	r.batches(10)
	r.leave()
}

// TestReplacedAfterAccept: a replica that was accepted before the database was replaced is not fed from the new one,
// which has another history.
func TestReplacedAfterAccept(t *testing.T) {
	dir := t.TempDir()
	db := enginetest.OpenWith(t, engine.Options{Dir: dir + "/db"})
	db.BeginHistory(strings.Repeat("A", proto.IDLen))
	put(t, db, 1, 10)
	m, _ := newMaster(t, db, defaults)
	defer m.Close()
	p := proto.PSync{ID: strings.Repeat("A", proto.IDLen), Next: db.LatestSequence() + 1}
	require.NoError(t, m.Accept(p))

	other, err := engine.Open(engine.Options{Dir: dir + "/other"})
	require.NoError(t, err)
	other.BeginHistory(strings.Repeat("B", proto.IDLen))
	put(t, other, 1, 20)
	require.NoError(t, other.Close())
	resume := m.Suspend()
	require.NoError(t, db.Replace(dir+"/other", nil))
	resume()

	ours, theirs := net.Pipe()
	go m.Feed(wiretest.Link{Conn: ours}, master.Peer{Remote: "10.0.0.1:1234"}, p)
	if got, err := io.ReadAll(theirs); len(got) > 0 || err != nil {
		t.Errorf("the replica got %q, %v", got, err)
	}
}

// FuzzAccept: a master that accepts a request has the requested writes.
func FuzzAccept(f *testing.F) {
	db, err := engine.Open(engine.Options{Dir: f.TempDir() + "/db"})
	if err != nil {
		f.Fatal(err)
	}
	m := master.New(master.Options{DB: db, CheckpointDir: f.TempDir() + "/c"}, defaults)
	f.Cleanup(func() {
		m.Close()
		db.Close()
	})
	db.BeginHistory("AAAAAAAAAAAAAAAA")
	put(f, db, 1, 1) // up to 2
	f.Add("AAAAAAAAAAAAAAAA", "1")
	f.Add("", "2")
	f.Add("BBBBBBBBBBBBBBBB", "18446744073709551615")
	f.Fuzz(func(t *testing.T, id, seq string) {
		args := [][]byte{[]byte(seq)}
		if id != "" {
			args = [][]byte{[]byte(id), []byte(seq)}
		}
		p, err := proto.ParsePSync(args)
		if err != nil {
			return
		}
		if err := m.Accept(p); err == nil && (p.Next < 1 || p.Next > 3 || p.ID != "" && p.ID != "AAAAAAAAAAAAAAAA") {
			t.Errorf("%+v was accepted", p)
		}
	})
}

// TestMasterTime: a master sends its replica the time after the writes that it had begun before that time, and the
// replica passes it on to its own replicas.
func TestMasterTime(t *testing.T) {
	db := enginetest.Open(t)
	m := master.New(master.Options{DB: db, CheckpointDir: t.TempDir() + "/c"}, defaults)
	defer m.Close()
	put(t, db, 100, 10)
	began := time.Now().UnixMilli()
	r := connect(t, m, 1, proto.Conf{Ack: true})
	defer r.leave()
	for {
		f, err := r.frame()
		require.NoError(t, err)
		if f.Kind == proto.KindBatch {
			r.next += uint64(f.Count())
		}
		if f.Kind != proto.KindTime {
			continue
		}
		if r.next != db.LatestSequence()+1 {
			t.Errorf("the time came before %d of %d writes", r.next-1, db.LatestSequence())
		}
		if at := f.Time(); at < began-10*60_000 || at > time.Now().UnixMilli()-60_000 {
			t.Errorf("it is %d ms behind", time.Now().UnixMilli()-at)
		}
		return
	}
}
