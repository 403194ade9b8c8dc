package master_test

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/wire"
)

// TestSlowReplica: a replica that takes nothing for the configured time is disconnected, and the log contains the
// reason.
func TestSlowReplica(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, 10, 1000)
	synctest.Test(t, func(t *testing.T) {
		m, logs := newMaster(t, db, defaults)
		defer m.Close()
		began := time.Now()
		r := connect(t, m, 1, proto.Conf{})
		<-r.ended
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it was cut off after %v", took)
		}
		if why := reason(logs); !strings.Contains(why, "timeout") {
			t.Errorf("the log says %q", why)
		}
	})
}

// TestStuckReplica: neither the queue of the link nor new writes extend the time of a replica that takes nothing. A
// replica that takes something now and then is not disconnected.
func TestStuckReplica(t *testing.T) {
	db := enginetest.Open(t)
	for _, reads := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m, logs := newMaster(t, db, defaults)
			defer m.Close()
			ours, theirs := net.Pipe()
			c := wire.New(ours, wire.Limits{Hard: func() int { return 0 }})
			ended := make(chan struct{})
			go func() {
				m.Feed(c, master.Peer{Remote: "10.0.0.1:1234"}, proto.PSync{Next: db.LatestSequence() + 1})
				close(ended)
			}()
			for range 20 {
				put(t, db, 1, 100)
				time.Sleep(5 * time.Second)
				if reads {
					theirs.Read(make([]byte, 500))
				}
			}
			synctest.Wait()
			select {
			case <-ended:
				if reads {
					t.Errorf("a slow one was cut off: %s", reason(logs))
				}
			default:
				if !reads {
					t.Error("a stuck one was not cut off")
				}
			}
			theirs.Close()
			<-ended
		})
	}
}

// TestSilentReplica: a replica that has acknowledged before and then stops is disconnected, even if its connection
// takes data, as the socket of a half-open connection does. While it is silent it does not count. A replica that never
// acknowledges, such as a Kvrocks 2.10, stays.
func TestSilentReplica(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, 3, 10)
	for _, back := range []time.Duration{0, 2 * time.Hour} {
		t.Run(fmt.Sprintf("clock set back by %v", back), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { silentReplica(t, db, back) })
		})
	}
}

func silentReplica(t *testing.T, db *engine.DB, back time.Duration) {
	s := defaults
	s.AckTimeout, s.MinReplicas = time.Minute, 1
	core, logs := observer.New(zap.InfoLevel)
	var until atomic.Int64
	m := master.New(master.Options{DB: db, Log: zap.New(core), Enough: until.Store,
		CheckpointDir: t.TempDir() + "/c"}, s)
	defer m.Close()
	old, r := connect(t, m, 1, proto.Conf{}), connect(t, m, 1, proto.Conf{Ack: true})
	go old.untilEnd()
	go r.untilEnd()
	for range 5 * 60 {
		r.ack(2)
		time.Sleep(time.Second)
	}
	synctest.Wait()
	if m.Connected() != 2 || m.GoodReplicas() != 1 || until.Load() < time.Now().UnixNano() {
		t.Fatalf("%d of 2 replicas are there, %d count: %s", m.Connected(), m.GoodReplicas(), reason(logs))
	}
	began := time.Now()
	m.SetClockBack(back)
	time.Sleep(s.MaxAckAge + 2*time.Second) // the master looks at the clock every second
	synctest.Wait()
	if m.Connected() != 2 || m.GoodReplicas() != 0 || until.Load() >= time.Now().UnixNano() || m.AckedBy(3) != 0 {
		t.Errorf("%d of 2 replicas are there, %d count", m.Connected(), m.GoodReplicas())
	}
	select {
	case <-r.ended:
	case <-time.After(time.Hour):
		t.Error("it was not cut off")
		r.leave()
	}
	if took := time.Since(began); took < time.Minute-time.Second || took > time.Minute+2*time.Second {
		t.Errorf("it was cut off after %v", took)
	}
	if why := reason(logs); !strings.Contains(why, "repl-timeout") {
		t.Errorf("the log says %q", why)
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	if m.Connected() != 1 {
		t.Error("the replica that acknowledges nothing was cut off, too")
	}
	old.leave()
}

// reason returns the reason for a disconnection from the log.
func reason(logs *observer.ObservedLogs) string {
	for _, e := range logs.FilterMessage("a replica is disconnected").All() {
		return fmt.Sprint(e.ContextMap()["error"])
	}
	return ""
}

// TestLag: a replica that falls back too far is disconnected; one that connects late and catches up is not.
func TestLag(t *testing.T) {
	db := enginetest.Open(t)
	s := defaults
	s.MaxLag = 100
	m, logs := newMaster(t, db, s)
	defer m.Close()
	put(t, db, 500, 10)
	r := connect(t, m, 1, proto.Conf{})
	r.batches(500)
	if n := logs.FilterMessage("a replica is disconnected").Len(); n != 0 {
		t.Fatal("a replica that caught up was cut off")
	}
	put(t, db, 2000, 1000) // while it does not read
	told := r.untilEnd()
	if why := reason(logs); !strings.Contains(why, "max-replication-lag") {
		t.Errorf("the log says %q", why)
	}
	if !strings.Contains(fmt.Sprint(told), "max-replication-lag") {
		t.Errorf("the replica was told %v", told)
	}
}
