package master_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/replication/master"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// failoverServer records the calls of a failover.
type failoverServer struct {
	mu      sync.Mutex
	did     []string
	promote func() (sent bool, err error)
	ended   chan struct{}
}

func (s *failoverServer) note(what string) {
	s.mu.Lock()
	s.did = append(s.did, what)
	s.mu.Unlock()
}

func (s *failoverServer) Pause() error { s.note("pause"); return nil }
func (s *failoverServer) Unpause()     { s.note("unpause"); close(s.ended) }

func (s *failoverServer) Promote(context.Context, string, int) (bool, error) {
	s.note("promote")
	return s.promote()
}

func (s *failoverServer) Follow(host string, port int) error { s.note("follow " + host); return nil }

// TestFailover: the order of the steps, for all ends of a failover.
func TestFailover(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, 5, 10)
	lost := errors.New("connection reset")
	answers := func(all ...func() (bool, error)) func() (bool, error) {
		return func() (bool, error) {
			f := all[0]
			if len(all) > 1 {
				all = all[1:]
			}
			return f()
		}
	}
	good := func() (bool, error) { return true, nil }
	unknown := func() (bool, error) { return true, lost }
	refused := func() (bool, error) { return false, lost }
	for _, tt := range []struct {
		name    string
		o       master.FailoverOptions
		ack     uint64 // of the replica, 0 = none
		promote func() (bool, error)
		abort   bool
		after   time.Duration // how long it takes
		want    []string
	}{
		{"caught up", master.FailoverOptions{}, 5, good, false, 0,
			[]string{"pause", "promote", "follow 10.0.0.1", "unpause"}},
		{"a certain one", master.FailoverOptions{Host: "10.0.0.1", Port: 6666}, 5, good, false, 0,
			[]string{"pause", "promote", "follow 10.0.0.1", "unpause"}},
		{"late", master.FailoverOptions{Timeout: 5 * time.Second}, 4, good, false, 5 * time.Second,
			[]string{"pause", "unpause"}},
		{"forced", master.FailoverOptions{Host: "10.0.0.1", Port: 6666, Force: true, Timeout: 5 * time.Second},
			4, good, false, 5 * time.Second,
			[]string{"pause", "promote", "follow 10.0.0.1", "unpause"}},
		{"aborted", master.FailoverOptions{}, 4, good, true, 10 * time.Second, []string{"pause", "unpause"}},
		{"the replica cannot be reached", master.FailoverOptions{}, 5, refused, false, 0,
			[]string{"pause", "promote", "unpause"}},
		{"its answer is lost", master.FailoverOptions{}, 5, answers(unknown, refused, good), false, 2 * time.Second,
			[]string{"pause", "promote", "promote", "promote", "follow 10.0.0.1", "unpause"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, _ := newMaster(t, db, defaults)
				defer m.Close()
				if err := m.Failover(tt.o, nil); err == nil {
					t.Error("a failover without replicas")
				}
				r := connect(t, m, 1, proto.Conf{Port: 6666, Ack: true})
				go r.untilEnd()
				time.Sleep(time.Second)
				r.ack(tt.ack)
				synctest.Wait()
				srv := &failoverServer{promote: tt.promote, ended: make(chan struct{})}
				began := time.Now()
				require.NoError(t, m.Failover(tt.o, srv))
				if tt.abort {
					synctest.Wait()
					if err := m.Failover(tt.o, srv); !errors.Is(err, master.ErrFailoverUnder) ||
						m.FailoverState() != master.FailoverWaiting {
						t.Errorf("%v, %s", err, m.FailoverState())
					}
					time.Sleep(10 * time.Second)
					if err := m.AbortFailover(); err != nil {
						t.Error(err)
					}
				}
				<-srv.ended
				if took := time.Since(began); took != tt.after {
					t.Errorf("it took %v, want %v", took, tt.after)
				}
				if !slices.Equal(srv.did, tt.want) {
					t.Errorf("did %q, want %q", srv.did, tt.want)
				}
				if err := m.AbortFailover(); err == nil || m.FailoverState() != master.NoFailover {
					t.Errorf("it has not ended: %v, %s", err, m.FailoverState())
				}
				r.leave()
			})
		})
	}
}

// nextFailover begins another failover while the pause of the first one ends.
type nextFailover struct {
	*failoverServer
	begin func()
	next  chan struct{} // closed when the other failover has paused the clients
	early bool
}

func (s *nextFailover) Unpause() {
	s.begin()
	select {
	case <-s.next:
		s.early = true
	case <-time.After(100 * time.Millisecond):
	}
	s.failoverServer.Unpause()
}

// pausing is a server whose clients are paused.
type pausing struct {
	*failoverServer
	paused chan struct{}
}

func (s *pausing) Pause() error { close(s.paused); return nil }

// TestFailoverAfterAnother: the end of a failover does not end the pause of the next one, whose clients would write
// what its replica does not have.
func TestFailoverAfterAnother(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, 5, 10)
	m, _ := newMaster(t, db, defaults)
	r := connect(t, m, 1, proto.Conf{Port: 6666, Ack: true})
	go r.untilEnd()
	r.ack(4)
	refused := func() (bool, error) { return false, errors.New("refused") }
	second := &pausing{&failoverServer{promote: refused, ended: make(chan struct{})}, make(chan struct{})}
	first := &nextFailover{failoverServer: &failoverServer{promote: refused, ended: make(chan struct{})},
		next: second.paused}
	first.begin = func() {
		go func() {
			for m.Failover(master.FailoverOptions{}, second) != nil {
			}
		}()
	}
	require.NoError(t, m.Failover(master.FailoverOptions{}, first))
	require.NoError(t, m.AbortFailover())
	<-first.ended
	if first.early {
		t.Error("the next failover has paused the clients before the pause of the first one has ended")
	}
	<-second.paused
	m.Close()
	<-second.ended
	r.leave()
}

// TestFailoverTargets: which replicas may take over.
func TestFailoverTargets(t *testing.T) {
	db := enginetest.Open(t)
	m, _ := newMaster(t, db, defaults)
	defer m.Close()
	r := connect(t, m, 1, proto.Conf{Port: 6666}) // a Kvrocks 2.10: it acknowledges nothing
	for _, o := range []master.FailoverOptions{{}, {Host: "10.0.0.1", Port: 6667}, {Host: "10.0.0.2", Port: 6666}} {
		if err := m.Failover(o, nil); err == nil {
			t.Errorf("%+v is possible", o)
		}
	}
	r.leave()
}
