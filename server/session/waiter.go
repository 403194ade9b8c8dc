package session

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/cluster/topology"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/resp"
)

// waiter is a client that waits for data. Three parties change the waiter: runs of other clients that bring data, its
// own connection, which sleeps until it is woken, and CLIENT UNBLOCK.
//
//	          claim; the command has a reply     settle: the commit
//	waiting ─────────────────────────────────► served, mu held ────────► served ──► the connection sends the reply
//	 │ ▲ │ ▲ ◄─ unclaim: nothing for it             │                      ▲ ▲
//	 │ │ │ └────────────────────────────────────────┘                      │ │
//	 │ │ │           settle: the commit has failed                         │ │
//	 │ │ ├─ poll: the time is up; unblock ─────────────────────────────────┘ │
//	 │ │ └─ poll: woken ────► alone ── endAlone: a reply, or an error ───────┘
//	 │ └────────────────────────┘
//	 │      endAlone: nothing
//	 └─ leave: the connection has ended ──► finished
//
// A run that brings data never waits for the holder of mu. It sets missed instead. The holder checks missed after it
// has released mu, or has returned from the state alone; if missed is set, the connection is woken and tries alone.
// So no data is overlooked when two runs bring data at the same time.
//
// When a run lacks locks and must not wait for them, it leaves the data to the waiter's connection, which tries alone
// with all its locks. mustRetry is set, and later waiters are not served. The connection then serves the later waiters,
// or wakes them if it leaves without the data.
type waiter struct {
	conn  *conn
	spec  *command.Spec
	wait  command.Wait
	args  [][]byte // as the client sent them; wait.Args may differ (XREAD with $)
	keys  []string // metadata keys, without repetition
	until time.Time
	again atomic.Int64 // when the connection tries again by itself, in nanoseconds since the epoch; 0 = never
	// The connection sent READONLY, or ASKING before the command.
	readOnly, asking bool

	mu    sync.Mutex // held during each try to serve the waiter, and after a success until the commit
	state waitState
	// The reply, and what the statistics note of it. These fields belong to the holder of mu, or to the connection
	// when the state is served or alone.
	out    resp.Writer
	err    error // the error of the reply; nil = the reply is no error
	denied bool  // the client is no longer permitted to run the command
	ended  error // see end; guarded by mu

	took      atomic.Int64 // running time of the command without the wait, a time.Duration: for the slow log
	missed    atomic.Bool  // a run had data while mu was held, or while the connection tried alone
	woken     atomic.Bool  // the connection must poll: its read deadline was moved
	mustRetry atomic.Bool  // the data was left to the connection; set with mu held
}

type waitState uint8

const (
	waiting  waitState = iota
	served             // out is the reply
	alone              // the connection runs the command by itself
	finished           // the wait has ended
)

// claim takes mu for a try in the transaction of another client, and reports whether it has. It does not while another
// try is under way, nor when the client no longer waits.
func (w *waiter) claim() bool {
	w.missed.Store(true)
	if !w.mu.TryLock() {
		return false
	}
	if w.state == waiting {
		w.missed.Store(false)
		return true
	}
	w.missed.Store(w.state == alone)
	w.mu.Unlock()
	return false
}

// unclaim releases mu after a try without a reply. needLocks: there may be data, but locks are missing. unclaim
// reports whether to try once more.
func (w *waiter) unclaim(needLocks bool) (again bool) {
	missed := w.missed.Load()
	if needLocks {
		w.mustRetry.Store(true)
	}
	sooner := w.rearm(false)
	w.mu.Unlock()
	if needLocks || missed || sooner {
		w.wake() // the connection tries by itself
		return false
	}
	return w.missed.Load() // may have been set since the check above
}

// serve makes the contents of out, or the error, the reply. mu must be held, unless the connection tries alone.
func (w *waiter) serve(err error) {
	if err != nil {
		w.out.Reset()
		command.WriteError(&w.out, err)
	}
	w.state, w.err = served, err
}

// settle ends a try that had a reply, after the commit. The connection is woken to send the reply; if the commit
// failed with err, it keeps waiting.
func (w *waiter) settle(err error) {
	if err != nil {
		w.out.Reset()
		w.state, w.err, w.denied = waiting, nil, false
		w.release()
	}
	w.mu.Unlock()
	if err == nil || w.missed.Load() {
		w.wake()
	}
}

// rearm sets when the connection tries again by itself, as the last try has said. Unless alone is set, that try knew
// some of the keys only, and rearm does nothing but bring the time forward. It reports whether it has. mu must be held.
func (w *waiter) rearm(alone bool) (sooner bool) {
	if w.wait.Again == 0 {
		return false
	}
	at, before := time.Now().Add(w.wait.Again).UnixNano(), w.again.Load()
	if sooner = before == 0 || at < before; sooner || alone {
		w.again.Store(at)
	}
	return sooner
}

// deadline returns when the connection must poll although nobody wakes it; zero = never.
func (w *waiter) deadline() time.Time {
	again := w.again.Load()
	if at := time.Unix(0, again); again != 0 && (w.until.IsZero() || at.Before(w.until)) {
		return at
	}
	return w.until
}

// poll decides what the woken connection does: it sends the reply (after the timeout: the reply for a timeout), or it
// tries alone.
func (w *waiter) poll() waitState {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.state == served:
	case !w.until.IsZero() && !time.Now().Before(w.until):
		w.wait.Null(&w.out)
		w.serve(nil)
	case w.state == waiting:
		w.state = alone
	}
	return w.state
}

// endAlone ends a try of the connection itself, and reports whether there is a reply. Without a reply the connection
// keeps waiting.
func (w *waiter) endAlone(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == command.ErrNotReady && w.ended != nil {
		err = w.ended
	}
	if err != command.ErrNotReady {
		w.serve(err)
		return true
	}
	w.mustRetry.Store(false) // there is nothing for the later waiters either
	w.state = waiting
	w.rearm(true)
	if w.missed.Load() {
		w.woken.Store(true) // once more
	}
	return false
}

// unblock ends the wait with the reply for a timeout, or with an error. It reports whether the client was waiting.
func (w *waiter) unblock(err error) bool {
	w.mu.Lock()
	ok := w.state == waiting
	if ok {
		if err == nil {
			w.wait.Null(&w.out)
		}
		w.serve(err)
	}
	w.mu.Unlock()
	if ok {
		w.wake()
	}
	return ok
}

// redirect ends the wait for keys that this node no longer serves. A connection that tries alone finds that out by
// itself.
func (w *waiter) redirect(t *topology.Topology) {
	err := w.route(t, false) // clients may write again after the end of a migration that fails
	if err == nil || w.unblock(err) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == alone {
		w.missed.Store(true)
	}
}

// route returns the redirection for a client that is blocked on keys; write: its command is about to write.
func (w *waiter) route(t *topology.Topology, write bool) error {
	if len(w.wait.Keys) == 0 {
		return nil
	}
	return t.Route(cf.Slot(w.wait.Keys[0]), topology.Access{Write: write, ReadOnly: w.readOnly, Asking: w.asking})
}

// end is unblock with an error, also for a connection that tries alone: there the error is the reply unless the try
// has one.
func (w *waiter) end(err error) {
	if w.unblock(err) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == alone {
		w.ended = err
	}
}

// leave ends the wait of a connection that has ended.
func (w *waiter) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == waiting {
		w.state = finished
	}
}

// wake makes the connection check the state of its wait.
func (w *waiter) wake() {
	w.woken.Store(true)
	w.conn.wire.Wake()
}

// hold keeps back the invalidation messages for the commit that serves the client: the reply comes first, as
// everywhere.
func (w *waiter) hold() {
	if t := w.conn.info.track.Load(); t != nil {
		t.Begin()
	}
}

// release sends the messages that hold kept back.
func (w *waiter) release() {
	if t := w.conn.info.track.Load(); t != nil {
		t.Idle(nil)
	}
}

// mayServe reports whether there may be data for the waiter. The check is cheap, since the record is in memory: so
// one element does not make a thousand waiters run their handlers.
func (w *waiter) mayServe(tx *engine.Tx, key []byte) bool {
	rec, err := tx.LoadHead(key)
	if err != nil {
		return false
	}
	return rec.Exists && rec.Type == w.wait.Type || w.wait.Gone && (!rec.Exists || rec.Type != w.wait.Type)
}

// waitTable records which clients wait for which keys.
type waitTable struct {
	n     atomic.Int64 // blocked clients
	mu    sync.Mutex
	byKey map[string][]*waiter // in order of arrival
	acks  map[*waiter]bool     // clients that wait for replicas
}

func (t *waitTable) add(w *waiter) {
	t.mu.Lock()
	if t.byKey == nil {
		t.byKey = map[string][]*waiter{}
	}
	for _, k := range w.keys {
		t.byKey[k] = append(t.byKey[k], w)
	}
	if w.wait.Enough != nil {
		if t.acks == nil {
			t.acks = map[*waiter]bool{}
		}
		t.acks[w] = true
	}
	t.mu.Unlock()
	t.n.Add(1)
}

func (t *waitTable) remove(w *waiter) {
	t.mu.Lock()
	for _, k := range w.keys {
		list := t.byKey[k]
		if i := slices.Index(list, w); i >= 0 {
			// A new slice: other goroutines may be iterating over the old one.
			if list = slices.Concat(list[:i], list[i+1:]); len(list) == 0 {
				delete(t.byKey, k)
			} else {
				t.byKey[k] = list
			}
		}
	}
	delete(t.acks, w)
	t.mu.Unlock()
	t.n.Add(-1)
}

// acked wakes the clients that wait for replicas and have enough acknowledgements: each tries by itself.
func (t *waitTable) acked() {
	if t.n.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for w := range t.acks {
		if w.wait.Enough() {
			w.missed.Store(true)
			w.wake()
		}
	}
}

// counts returns how many keys have blocked clients, and how many of these keys have clients that also wait for the
// deletion.
func (t *waitTable) counts() (all, gone int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, list := range t.byKey {
		if slices.ContainsFunc(list, func(w *waiter) bool { return w.wait.Gone }) {
			gone++
		}
	}
	return len(t.byKey), gone
}

// wakeAll wakes the clients blocked on some keys: each tries by itself.
func (t *waitTable) wakeAll(nsKeys []string) {
	for _, k := range nsKeys {
		for _, w := range t.of([]byte(k)) {
			w.wake()
		}
	}
}

// of returns the clients blocked on a key. The slice is not changed afterwards.
func (t *waitTable) of(nsKey []byte) []*waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.byKey[string(nsKey)]
	return list[:len(list):len(list)]
}

// keys returns the keys that have blocked clients.
func (t *waitTable) keys() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.byKey))
}

// all returns all clients that wait for keys or replicas, in no order.
func (t *waitTable) all() []*waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := maps.Clone(t.acks)
	if all == nil {
		all = map[*waiter]bool{}
	}
	for _, list := range t.byKey {
		for _, w := range list {
			all[w] = true
		}
	}
	return slices.Collect(maps.Keys(all))
}

// keyspaceChanged wakes all clients that wait for keys: each tries by itself. A flush, or an exchange of databases,
// names no keys to find them by.
func (t *waitTable) keyspaceChanged() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, list := range t.byKey {
		for _, w := range list {
			w.missed.Store(true)
			w.wake()
		}
	}
}
