package master_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// TestAcks: acknowledgements count, and replicas are asked for them when a client waits.
func TestAcks(t *testing.T) {
	db := enginetest.Open(t)
	acks := make(chan struct{}, 100)
	s := defaults
	s.MinReplicas = 1
	var until atomic.Int64
	lacking := func() bool { return until.Load() < time.Now().UnixNano() }
	m := master.New(master.Options{DB: db, CheckpointDir: t.TempDir() + "/c",
		Acked: func() { acks <- struct{}{} }, Enough: until.Store}, s)
	defer m.Close()
	if !lacking() {
		t.Error("without replicas none is lacking")
	}
	r := connect(t, m, 1, proto.Conf{Ack: true})
	silent := connect(t, m, 1, proto.Conf{})
	<-acks // the connections are told too
	<-acks
	put(t, db, 3, 10)
	m.AskAck(3)
	silent.batches(3)
	for {
		f, err := r.frame()
		if err != nil {
			t.Fatal(err)
		}
		if f.Kind == proto.KindGetAck {
			break
		}
	}
	if n := m.AckedBy(3); n != 0 {
		t.Errorf("%d have acknowledged before any has", n)
	}
	r.ack(2)
	<-acks
	if m.AckedBy(2) != 1 || m.AckedBy(3) != 0 || m.GoodReplicas() != 1 {
		t.Errorf("%d have acknowledged 2, %d have 3", m.AckedBy(2), m.AckedBy(3))
	}
	if _, err := r.conn.Write(proto.AppendRequest(nil, "PING")); err != nil { // is ignored
		t.Fatal(err)
	}
	r.ack(1000) // it cannot have what does not exist
	<-acks
	if m.AckedBy(3) != 1 || m.AckedBy(4) != 0 {
		t.Error("an acknowledgement counts for more than was sent")
	}
	if lacking() {
		t.Error("a replica that has acknowledged is lacking")
	}
	s.MaxAckAge = time.Hour
	m.Set(s)
	if left := time.Until(time.Unix(0, until.Load())); left > time.Hour || left < time.Hour/2 {
		t.Errorf("it counts for %v", left)
	}
	s.MinReplicas = 2
	m.Set(s)
	if !lacking() {
		t.Error("one is enough for two")
	}
	s.MinReplicas = 0
	m.Set(s)
	if until.Load() != 0 {
		t.Error("a replica is needed where none is")
	}
	s.MinReplicas = 1
	m.Set(s)
	r.leave()
	silent.leave()
	if m.AckedBy(1) != 0 || !lacking() {
		t.Error("a replica that is gone counts")
	}
}

// TestAwaitAcks: all connected replicas that acknowledge are waited for, and those that are to be connected.
func TestAwaitAcks(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, 3, 10)
	synctest.Test(t, func(t *testing.T) {
		m, _ := newMaster(t, db, defaults)
		defer m.Close()
		old := connect(t, m, 4, proto.Conf{})
		if !m.AwaitAcks(3, 1, time.Second) {
			t.Error("somebody was waited for who acknowledges nothing")
		}
		if m.AwaitAcks(3, 2, time.Second) {
			t.Error("another one is not connected")
		}
		first := make(chan bool)
		go func() { first <- m.AwaitAcks(3, 2, 5*time.Second) }()
		synctest.Wait()
		var replicas []*replica
		for range 2 {
			r := connect(t, m, 4, proto.Conf{Ack: true})
			replicas = append(replicas, r)
			go r.untilEnd()
		}
		synctest.Wait()
		select {
		case <-first:
			t.Error("two have not acknowledged anything yet")
		default:
		}
		for _, r := range replicas {
			r.ack(1)
		}
		<-first
		synctest.Wait()
		began := time.Now()
		if m.AwaitAcks(3, 2, 5*time.Second) || time.Since(began) != 5*time.Second {
			t.Errorf("it took %v", time.Since(began))
		}
		all := make(chan bool)
		go func() { all <- m.AwaitAcks(3, 2, 5*time.Second) }()
		replicas[0].ack(3)
		synctest.Wait()
		select {
		case <-all:
			t.Error("one has not acknowledged yet")
		default:
		}
		began = time.Now()
		replicas[1].leave()
		if !<-all || time.Since(began) != 0 {
			t.Errorf("it took %v", time.Since(began))
		}
		replicas[0].leave()
		old.leave()
	})
}

var badNames = []string{"", ".", "..", "../db/CURRENT", "/etc/passwd", "CURRENT,../db/CURRENT", "a/../CURRENT",
	"999999.sst",
	"CURRENT,CURRENT", "LOCK", "CURRENT\x00", "..\\db", "CURRENT,"}
