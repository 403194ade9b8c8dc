package replica_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/replication/replica"
	"github.com/basaltdb/basalt/server/wire/wiretest"
)

// calm are options of a database in which nothing happens by itself.
func calm(t testing.TB, replica bool) engine.Options {
	o := engine.DefaultRocksOptions()
	o.DisableAutoCompactions = true
	return engine.Options{Dir: t.TempDir() + "/db", Rocks: o, Replica: replica}
}

// follower is a replica with its database, whose connections a function makes.
type follower struct {
	*replica.Replica
	db   *engine.DB
	logs *observer.ObservedLogs
}

var followerSettings = replica.Settings{DBName: "change.me.db", Port: 7999}

// newFollower opens the database; Replica is made by start.
func newFollower(t testing.TB) *follower {
	return &follower{db: enginetest.OpenWith(t, calm(t, true))}
}

func (f *follower) start(dial func(ctx context.Context) (net.Conn, error), s replica.Settings) {
	core, logs := observer.New(zap.DebugLevel)
	f.logs = logs
	f.Replica = replica.New(replica.Options{
		DB: f.db, Log: zap.New(core), Dir: filepath.Join(filepath.Dir(f.db.Dir()), "sync_checkpoint"),
		Dial: func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) },
	}, s)
	f.Follow("master", 6666, false)
}

// played is the other end of a connection of a replica: a master that a test plays.
type played struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// playing returns a dial function, and a function that waits for the next connection.
func playing(t *testing.T) (dial func(context.Context) (net.Conn, error), accept func() *played) {
	conns := make(chan net.Conn)
	dial = func(ctx context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case conns <- theirs:
			return ours, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return dial, func() *played {
		c := <-conns
		return &played{t, c, bufio.NewReader(c)}
	}
}

// expect reads what must come next.
func (p *played) expect(want []byte) {
	p.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(p.in, got); err != nil || !bytes.Equal(got, want) {
		p.t.Fatalf("the replica sent %q, %v; want %q", got[:n], err, want)
	}
}

func (p *played) send(b string) {
	p.t.Helper()
	if _, err := io.WriteString(p.conn, b); err != nil {
		p.t.Fatal(err)
	}
}

// introduce plays the steps up to PSYNC.
func (p *played) introduce() {
	p.t.Helper()
	p.expect(proto.AppendDBName(nil))
	p.send("change.me.db\r\n")
	p.expect(proto.AppendConf(nil, proto.Conf{Port: 7999}))
	p.send(proto.OK)
	p.expect(proto.AppendCapa(nil, true))
	p.send("-ERR unknown option\r\n") // as Kvrocks
}

// forget reads what else comes, which is nothing but acknowledgements.
func (p *played) forget() { go io.Copy(io.Discard, p.in) }

// byteByByte delivers one byte at a time.
type byteByByte struct{ net.Conn }

func (c byteByByte) Read(b []byte) (int, error) { return c.Conn.Read(b[:min(len(b), 1)]) }

// TestTranscript: a replica asks byte by byte what a replica of Kvrocks asks, and takes what a master of Kvrocks has
// sent, however it arrives.
func TestTranscript(t *testing.T) {
	for _, name := range []string{fixture.PlainReplication, fixture.RSIDReplication} {
		for _, slow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s,slow=%t", name, slow), func(t *testing.T) {
				rec := fixture.LoadReplication(t, name)
				step := func(name string) fixture.Step {
					s, ok := rec.Step(name)
					if !ok {
						t.Fatalf("no step %q", name)
					}
					return s
				}
				f := newFollower(t)
				synctest.Test(t, func(t *testing.T) {
					dial, accept := playing(t)
					s := followerSettings
					s.SendID = name == fixture.RSIDReplication
					f.start(func(ctx context.Context) (net.Conn, error) {
						c, err := dial(ctx)
						if slow && err == nil {
							c = byteByByte{c}
						}
						return c, err
					}, s)
					defer f.Close()
					p := accept()
					p.expect(step("_db_name").Sent)
					p.send(string(step("_db_name").Received))
					p.expect(step("replconf").Sent)
					p.send(string(step("replconf").Received))
					p.expect(proto.AppendCapa(nil, true))
					p.send("-ERR unknown option\r\n")
					p.expect(step("psync 1").Sent)
					p.forget()
					stream := step("psync 1").Received
					p.send(string(stream))
					synctest.Wait()
					st, ok := f.Status()
					if !ok || st.State != replica.Connected || st.Err != "" || !st.DownSince.IsZero() {
						t.Errorf("%+v", st)
					}
					p.send("$4\r\nping\r\n")
					p.conn.Close()
				})
				var want [][]byte
				for _, b := range rec.Startup {
					want = append(want, b.Rep)
				}
				for _, c := range rec.Commands {
					for _, b := range c.Batches {
						want = append(want, b.Rep)
					}
				}
				u, err := f.db.UpdatesAfter(0, engine.UpdatesLimit{Batches: 1000, Bytes: 1 << 30})
				if err != nil {
					t.Fatal(err)
				}
				// Batches that have come together are written together.
				if got, want := records(u.Batches), records(want); !bytes.Equal(got, want) {
					t.Errorf("the log holds %q, want %q", got, want)
				}
			})
		}
	}
}

// records returns what batches hold behind their headers.
func records(batches [][]byte) (all []byte) {
	for _, b := range batches {
		all = append(all, b[batch.HeaderLen:]...)
	}
	return all
}

// TestLinkErrors: after how long a replica tries again, and what it tells.
func TestLinkErrors(t *testing.T) {
	const loading = "-LOADING kvrocks is restoring the db from backup\r\n"
	db := func(p *played, answer string) {
		p.expect(proto.AppendDBName(nil))
		p.send(answer)
	}
	refuse := func(p *played, answer string) {
		p.introduce()
		p.expect(proto.AppendPSync(nil, proto.PSync{Next: 1}))
		p.send(answer)
	}
	for _, tt := range []struct {
		name     string
		password string
		play     func(p *played)
		after    time.Duration
		err      string
	}{
		{"the connection ends", "", func(p *played) { p.expect(proto.AppendDBName(nil)) }, time.Second, "EOF"},
		{"a wrong password", "secret", func(p *played) {
			p.expect(proto.AppendAuth(nil, "", "secret"))
			p.send("-ERR invalid password\r\n")
		}, 10 * time.Second, "authentication: the master answered: ERR invalid password"},
		{"no password", "", func(p *played) { db(p, "-NOAUTH Authentication required.\r\n") }, 10 * time.Second, "NOAUTH"},
		{"another database", "", func(p *played) { db(p, "other\r\n") }, 10 * time.Second, "another db-name"},
		{"the master restores", "", func(p *played) { db(p, loading) }, time.Second, "LOADING"},
		{"a line without end", "", func(p *played) {
			p.expect(proto.AppendDBName(nil))
			p.conn.Write(bytes.Repeat([]byte("x"), 10<<10))
		}, time.Second, "too long"},
		{"no answer", "", func(p *played) {
			p.expect(proto.AppendDBName(nil))
			time.Sleep(10*time.Second + time.Millisecond)
		}, time.Second - time.Millisecond, "timeout"},
		{"loading at PSYNC", "", func(p *played) { refuse(p, loading) }, time.Second, "LOADING"},
		{"nonsense in the stream", "", func(p *played) { refuse(p, "+OK\r\n*1\r\n") }, 10 * time.Second, "not a frame"},
		{"an empty frame", "", func(p *played) { refuse(p, "+OK\r\n$0\r\n\r\n") }, 10 * time.Second, "not a frame"},
		{"the master ends the stream", "", func(p *played) {
			refuse(p, "+OK\r\n$4\r\nping\r\n-ERR too slow\r\n")
		}, time.Second, "the master has ended the stream: ERR too slow"},
		{"a gap", "", func(p *played) {
			refuse(p, "+OK\r\n$26\r\n\x07\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x05\x04\x05other\x05value\r\n")
		}, time.Second, "gap"},
		{"silence", "", func(p *played) {
			refuse(p, "+OK\r\n")
			p.forget()
			time.Sleep(30*time.Second + time.Millisecond)
		}, time.Second - time.Millisecond, "silent"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFollower(t)
			synctest.Test(t, func(t *testing.T) {
				dial, accept := playing(t)
				s := followerSettings
				s.Password = tt.password
				f.start(dial, s)
				defer f.Close()
				p := accept()
				tt.play(p)
				p.conn.Close()
				synctest.Wait()
				ended := time.Now()
				st, _ := f.Status()
				if !strings.Contains(st.Err, tt.err) || st.State == replica.Connected || st.DownSince.IsZero() {
					t.Errorf("state %v, error %q, want %q", st.State, st.Err, tt.err)
				}
				next := accept()
				if d := time.Since(ended); d != tt.after {
					t.Errorf("it tried again after %v, want %v", d, tt.after)
				}
				next.conn.Close()
			})
		})
	}
}

// TestCorrectedPassword: a replica tries a new masterauth at once. An equal one, and one from before the attempt,
// change nothing.
func TestCorrectedPassword(t *testing.T) {
	f := newFollower(t)
	synctest.Test(t, func(t *testing.T) {
		dial, accept := playing(t)
		s := followerSettings
		refuse := func(p *played) {
			p.expect(proto.AppendAuth(nil, "", s.Password))
			p.send("-ERR invalid password\r\n")
			p.conn.Close()
			synctest.Wait()
		}
		s.Password = "wrong"
		f.start(dial, s)
		defer f.Close()
		refuse(accept())
		ended := time.Now()
		time.Sleep(time.Second)
		f.Set(s)
		synctest.Wait()
		s.Password = "also wrong"
		f.Set(s)
		p := accept()
		if d := time.Since(ended); d != time.Second {
			t.Errorf("it tried the new password after %v", d)
		}
		refuse(p)
		ended = time.Now()
		accept().conn.Close()
		if d := time.Since(ended); d != 10*time.Second {
			t.Errorf("it tried again after %v", d)
		}
	})
}

// TestDisconnect: the link connects again.
func TestDisconnect(t *testing.T) {
	f := newFollower(t)
	synctest.Test(t, func(t *testing.T) {
		dial, accept := playing(t)
		f.start(dial, followerSettings)
		defer f.Close()
		for _, addr := range []string{"", "master:6666", "pipe"} {
			p := accept()
			p.introduce()
			p.expect(proto.AppendPSync(nil, proto.PSync{Next: 1}))
			p.send("+OK\r\n")
			synctest.Wait()
			if f.Disconnect("other:1") || !f.Disconnect(addr) || f.Disconnect(addr) {
				t.Errorf("%q: it closed another connection, none or one twice", addr)
			}
		}
		accept().conn.Close()
	})
}

// TestAcknowledges: about once a second to whoever the master is, at once when it asks.
func TestAcknowledges(t *testing.T) {
	f := newFollower(t)
	synctest.Test(t, func(t *testing.T) {
		dial, accept := playing(t)
		f.start(dial, followerSettings)
		defer f.Close()
		p := accept()
		p.introduce()
		p.expect(proto.AppendPSync(nil, proto.PSync{Next: 1}))
		began := time.Now()
		p.send("+OK\r\n$26\r\n\x01\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x05\x04\x05other\x05value\r\n")
		p.expect(proto.AppendAck(nil, 1))
		if d := time.Since(began); d != time.Second {
			t.Errorf("the first came after %v", d)
		}
		time.Sleep(time.Second / 2)
		p.send("$7\r\n_getack\r\n")
		p.expect(proto.AppendAck(nil, 1))
		if d := time.Since(began); d != 3*time.Second/2 {
			t.Errorf("the second came after %v", d)
		}
		p.send("$8\r\n_getsync\r\n")
		p.expect(proto.AppendSyncedAck(nil, 1, 1))
		// Nobody reads them any more: the stream goes on, and it is not an error.
		for i := range 20 {
			time.Sleep(time.Second)
			p.send(fmt.Sprintf("$26\r\n%c\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x05\x04\x05other\x05value\r\n", i+2))
		}
		synctest.Wait()
		if st, _ := f.Status(); st.State != replica.Connected {
			t.Errorf("%+v", st)
		}
		p.conn.Close()
	})
	if got := f.db.LatestSequence(); got != 21 {
		t.Errorf("sequence %d, want 21", got)
	}
}

// TestUnfollow: the link ends, and the database takes writes at once.
func TestUnfollow(t *testing.T) {
	f := newFollower(t)
	dial, accept := playing(t)
	f.start(dial, followerSettings)
	p := accept()
	p.introduce()
	put := func() error {
		return f.db.Update(cf.DefaultNamespace, [][]byte{[]byte("h")}, func(tx *engine.Tx) error {
			_, err := hash.Set(tx, []byte("h"), [][]byte{[]byte("f"), []byte("v")})
			return err
		})
	}
	if err := put(); !errors.Is(err, engine.ErrReplica) {
		t.Errorf("a replica was written to: %v", err)
	}
	// Whoever writes, however early, writes with the new replication id.
	const id = "JQP7CZ5WISUYWTN5"
	written := make(chan error)
	go func() {
		for {
			if err := put(); !errors.Is(err, engine.ErrReplica) {
				written <- err
				return
			}
		}
	}()
	f.Unfollow(func() { f.db.BeginHistory(id) })
	if err := <-written; err != nil {
		t.Error(err)
	}
	u, err := f.db.UpdatesAfter(0, engine.UpdatesLimit{Batches: 9, Bytes: 1 << 20})
	if err != nil || len(u.Batches) != 2 {
		t.Errorf("%d batches, %v", len(u.Batches), err)
	}
	for _, b := range u.Batches {
		if !strings.HasSuffix(string(b), "r "+id) {
			t.Errorf("%q", b)
		}
	}
	if _, err := io.Copy(io.Discard, p.in); err != nil {
		t.Error(err)
	}
	f.Close()
	if _, ok := f.Status(); ok || !f.Up() {
		t.Error("there is still a master")
	}
	if f.db.IsReplica() {
		t.Error("it is still a replica")
	}
}

// served lets a real master serve what connects. wrap may change a connection.
func served(t *testing.T, m *master.Master, wrap func(net.Conn) net.Conn) func(context.Context) (net.Conn, error) {
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	return func(context.Context) (net.Conn, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ours, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return nil, err
		}
		theirs, err := l.Accept()
		if err != nil {
			return nil, err
		}
		all.Go(func() { serve(m, wiretest.Link{Conn: theirs}) })
		return wrap(ours), nil
	}
}

// serve answers requests as a server does for a master.
func serve(m *master.Master, c wiretest.Link) {
	in := bufio.NewReader(c)
	var conf proto.Conf
	for {
		command, err := wiretest.ReadCommand(in)
		if err != nil {
			c.Close()
			return
		}
		words := enginetest.Bytes(command...)
		switch strings.ToLower(command[0]) {
		case "_db_name":
			c.Write(proto.AppendName(nil, "change.me.db"))
		case "replconf":
			if err := proto.ParseConf(&conf, words[1:]); err != nil {
				c.Write(proto.AppendError(nil, proto.ErrUnknownOption))
			} else {
				c.Write([]byte(proto.OK))
			}
		case "psync":
			p, err := proto.ParsePSync(words[1:])
			if err == nil {
				err = m.Accept(p)
			}
			if err != nil {
				c.Write(proto.AppendError(nil, proto.Error(err.Error())))
				continue
			}
			m.Feed(c, master.Peer{Conf: conf, Remote: "127.0.0.1:1"}, p)
			return
		case "_fetch_meta":
			m.SendList(c)
			return
		case "_fetch_file":
			m.SendFiles(c, words[1])
			return
		}
	}
}

func dump(t testing.TB, db *engine.DB) (all []string) {
	t.Helper()
	tx := db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	for id := range cf.NumFamilies {
		it := tx.Iter(id, engine.IterOptions{})
		for it.Next() {
			all = append(all, fmt.Sprintf("%s %x %x", id, it.Key(), it.Value()))
		}
		if err := it.Err(); err != nil {
			t.Error(err)
		}
		it.Close()
	}
	return append(all, fmt.Sprint("sequence ", db.LatestSequence()))
}

func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for range 30_000 {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal("it did not happen: " + what)
}
