package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/server/servertest"
)

// TestReplicaKilled kills a replica and its master in turn while the replica synchronises in full: at the answers to
// its requests, at the list of files, in the midst of files, when the last ones have come and the database is being
// replaced, and in the stream. Whoever was killed starts again; in the end both have the same. Where the database is
// replaced, TestReplace of the engine kills at every step.
func TestReplicaKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	dir := t.TempDir()
	var master, replica *process
	proxy := servertest.NewProxy(t, "")
	options := func(name string, more ...string) []string {
		return append([]string{"--dir", filepath.Join(dir, name), "--log-dir", "stdout", "--bind", "127.0.0.1",
			"--rocksdb.wal_ttl_seconds", "0", "--rocksdb.wal_size_limit_mb", "0"}, more...)
	}
	startMaster := func() {
		master = start(t, options("master")...)
		proxy.Target(master.addr)
	}
	startReplica := func() {
		replica = start(t, options("replica", "--slaveof", "127.0.0.1 "+strconv.Itoa(proxy.Port()))...)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	value := strings.Repeat("value", 2000)
	write := func() { // and let the log be deleted
		nc, err := net.Dial("tcp", master.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		c := servertest.NewClient(t, nc)
		c.RandomWrites(rnd, 200, true)
		for i := range 100 {
			c.Want(fmt.Sprintf("SET long:%d:%d %s", rnd.IntN(10), i, value), "+OK\r\n")
		}
		for range 2 {
			c.Want("FLUSHMEMTABLE", "+OK\r\n")
			c.Want("SET k v", "+OK\r\n")
		}
	}
	offset := func(p *process) string {
		_, rest, _ := strings.Cut(p.do("INFO", "replication"), "\r\nmaster_repl_offset:")
		line, _, _ := strings.Cut(rest, "\r\n")
		return line
	}
	caughtUp := func() {
		t.Helper()
		for deadline := time.Now().Add(patience); offset(replica) != offset(master); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the replica is at %s, its master at %s", offset(replica), offset(master))
			}
		}
	}
	kill := func(p *process) {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	}
	startMaster()
	write()
	startReplica()
	caughtUp()
	for i, after := range []int64{1, 60, 300, 40_000, 700_000, 1_000_000_000} {
		for _, victim := range []string{"master", "replica"} {
			kill(replica) // it comes back and finds that the log was purged
			write()
			started, stricken := make(chan struct{}), make(chan struct{})
			if i < 5 {
				proxy.After(after, func() {
					defer close(stricken)
					<-started
					if victim == "master" {
						master.cmd.Process.Kill()
					} else {
						replica.cmd.Process.Kill()
					}
				})
			}
			startReplica()
			close(started)
			if i == 5 { // when the replica says so
				replica.await("the database was replaced")
				if victim == "master" {
					master.cmd.Process.Kill()
				} else {
					replica.cmd.Process.Kill()
				}
				close(stricken)
			}
			select {
			case <-stricken:
			case <-time.After(patience):
				t.Fatalf("%d bytes have not come", after)
			}
			if victim == "master" {
				master.cmd.Wait()
				proxy.Cut()
				startMaster()
			} else {
				replica.cmd.Wait()
				startReplica()
			}
			caughtUp()
		}
	}
	for _, p := range []*process{replica, master} {
		p.cmd.Process.Signal(syscall.SIGTERM)
		if err := p.cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	var dbs []*engine.DB
	for _, name := range []string{"master", "replica"} {
		dbs = append(dbs, enginetest.OpenWith(t, engine.Options{Dir: filepath.Join(dir, name, "db")}))
	}
	enginetest.SameData(t, dbs[0], dbs[1])
}
