package master

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
)

// In a failover this server and a replica exchange their roles without losing a write:
//
//	waiting-for-sync          clients wait with their writes; a replica acknowledges the last one
//	failover-in-progress      that replica is told to become a master, until it confirms that
//	                          this server follows it, and clients continue: writes are refused as on any replica
//
// Before the replica is told, an error, the time-out or an abort restores the former state. Afterwards only the reply
// of the replica shows whether it has become a master, so the clients wait for that; only an abort ends the wait.

// FailoverOptions are the arguments of FAILOVER.
type FailoverOptions struct {
	Host    string // the replica that takes over; "" = the first one that has all writes
	Port    int
	Force   bool          // the replica takes over at the time-out even if it lacks writes
	Timeout time.Duration // 0 = none
}

// FailoverServer is the part of the server that a failover needs.
type FailoverServer interface {
	// Pause makes clients wait with their writes. When it returns, no write is running.
	Pause() error
	// Unpause ends the pause. It must not call the Master.
	Unpause()
	// Promote tells a server to become a master. sent reports whether the server may have received the message, also
	// after an error.
	Promote(ctx context.Context, host string, port int) (sent bool, err error)
	// Follow makes this server a replica.
	Follow(host string, port int) error
}

// The states of a failover, as INFO shows them.
const (
	NoFailover      = "no-failover"
	FailoverWaiting = "waiting-for-sync"
	FailoverUnder   = "failover-in-progress"
)

// Errors of FAILOVER, with the texts of Redis.
var (
	ErrFailoverUnder = engine.NewError("ERR", "FAILOVER already in progress.")
	errNoFailover    = engine.NewError("ERR", "No failover in progress.")
	errNoReplicas    = engine.NewError("ERR", "FAILOVER requires connected replicas.")
	errFailoverForce = engine.NewError("ERR",
		"FAILOVER with force option requires both a timeout and target HOST and IP.")
	errFailoverTarget = engine.NewError("ERR", "FAILOVER target HOST and PORT is not a replica.")
	errFailoverNoAcks = engine.NewError("ERR",
		"FAILOVER requires a replica that acknowledges writes, which Kvrocks does from 2.13 on.")
	errFailoverAborted  = errors.New("it was aborted")
	errFailoverTimedOut = errors.New("no replica has acknowledged everything in time")
)

// failover is a running failover.
type failover struct {
	FailoverOptions
	cancel context.CancelCauseFunc
	state  string // m.mu must be held
}

// promoteRetry is the time between two attempts to promote the replica.
const promoteRetry = time.Second

// FailoverState returns the state of the running failover.
func (m *Master) FailoverState() string {
	if f := m.failing.Load(); f != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		return f.state
	}
	return NoFailover
}

// Failover begins a failover. Its errors are error replies.
func (m *Master) Failover(o FailoverOptions, srv FailoverServer) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	f := &failover{FailoverOptions: o, cancel: cancel, state: FailoverWaiting}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := *m.feeders.Load()
	switch {
	case m.failing.Load() != nil:
		return ErrFailoverUnder
	case m.closed || m.suspended > 0 || len(all) == 0:
		return errNoReplicas
	case o.Force && (o.Host == "" || o.Timeout == 0):
		return errFailoverForce
	}
	found, acks := false, false
	for _, r := range all {
		if f.mayBe(r) {
			found, acks = true, acks || r.answers.Load()
		}
	}
	switch {
	case !found && o.Host != "":
		return errFailoverTarget
	case !acks && !o.Force:
		return errFailoverNoAcks
	}
	m.failing.Store(f)
	m.work.Go(func() {
		defer cancel(nil)
		err := m.failOver(ctx, f, srv)
		m.mu.Lock() // another failover, with a pause of its own, begins after both
		m.failing.Store(nil)
		srv.Unpause()
		m.mu.Unlock()
		if err != nil {
			m.log.Warn("the failover has failed, the server stays the master", zap.Error(err))
		}
	})
	return nil
}

// AbortFailover ends the running failover.
func (m *Master) AbortFailover() error {
	f := m.failing.Load()
	if f == nil {
		return errNoFailover
	}
	f.cancel(errFailoverAborted)
	return nil
}

// mayBe reports whether the replica may take over.
func (f *failover) mayBe(r *feeder) bool {
	s := r.state()
	return s.Port != 0 && (f.Host == "" || f.Host == s.IP && f.Port == s.Port)
}

func (m *Master) failOver(ctx context.Context, f *failover, srv FailoverServer) error {
	m.log.Info("a failover begins: clients wait with their writes")
	began := time.Now()
	if err := srv.Pause(); err != nil {
		return err
	}
	host, port, err := m.awaitSync(ctx, f)
	if err != nil {
		return err
	}
	m.mu.Lock()
	f.state = FailoverUnder
	m.mu.Unlock()
	if err := m.promote(ctx, srv, host, port); err != nil {
		return err
	}
	// The replica is a master now, so this server must not remain one, whatever happens.
	if err := srv.Follow(host, port); err != nil {
		return fmt.Errorf("the replica %s:%d has become the master, but this server cannot follow it: %w", host, port, err)
	}
	m.log.Info("the failover has ended: the server is a replica", zap.String("master", fmt.Sprintf("%s:%d", host, port)),
		zap.Duration("took", time.Since(began)))
	return nil
}

// awaitSync waits for a replica that has all writes, and returns its address. With force, the wait ends with the
// time-out.
func (m *Master) awaitSync(ctx context.Context, f *failover) (host string, port int, err error) {
	var timeout <-chan time.Time
	if f.Timeout > 0 {
		t := time.NewTimer(f.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	heard, stop := m.hear()
	defer stop()
	again := time.NewTicker(promoteRetry) // replicas come and go, and some writes do not come from clients
	defer again.Stop()
	for {
		latest := m.db.LatestSequence()
		for _, r := range *m.feeders.Load() {
			if f.mayBe(r) && r.answers.Load() && r.ackedAt.Load() != 0 && r.acked.Load() >= latest {
				s := r.state()
				return s.IP, s.Port, nil
			}
		}
		m.AskAck(latest)
		select {
		case <-heard:
		case <-again.C:
		case <-timeout:
			if f.Force {
				return f.Host, f.Port, nil
			}
			return "", 0, errFailoverTimedOut
		case <-ctx.Done():
			return "", 0, context.Cause(ctx)
		}
	}
}

// promote tells the replica to become a master, until the replica confirms it or cannot have received the message.
func (m *Master) promote(ctx context.Context, srv FailoverServer, host string, port int) error {
	for told := false; ; {
		sent, err := srv.Promote(ctx, host, port)
		if err == nil {
			return nil
		}
		told = told || sent
		if !told || ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		m.log.Warn("it is not known whether the replica has become a master: it is asked again", zap.Error(err))
		select {
		case <-ctx.Done():
		case <-time.After(promoteRetry):
		}
	}
}
