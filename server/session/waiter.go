package session

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/cluster"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/resp"
)

// waiter is a client that waits for data. Three parties change it: runs of others that bring data, its own connection,
// which sleeps until it is woken, and CLIENT UNBLOCK.
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
// Whoever brings data never waits for the one who holds mu. It sets missed instead, and the holder looks at missed
// after it has given mu back, or has come back from alone: then the connection is woken, and tries alone. So no data
// is overlooked, though two may bring some at the same time.
//
// When locks are missing that must not be waited for, the data is left to the connection, which tries alone with all
// its locks: owed is set, and those who wait behind this one are not served. The connection then serves them, or
// wakes them if it leaves without the data.
type waiter struct {
	conn  *conn
	spec  *command.Spec
	wait  command.Wait
	args  [][]byte // those of the client; wait.Args may be others (XREAD with $)
	keys  []string // metadata keys, without repetition
	until time.Time
	// The connection has sent READONLY, ASKING before the command.
	readOnly, asking bool

	mu    sync.Mutex // held while somebody tries to serve the waiter, and from a success on until the commit
	state waitState
	// The reply, and what the statistics are to note of it. They belong to the one who holds mu, or to the connection
	// when the state is served or alone.
	out    resp.Writer
	err    error // what the reply says; nil = it is no error
	denied bool  // the client may not run the command any more
	ended  error // see end; of mu

	took   atomic.Int64 // how long the command has run, without the wait, as time.Duration: for the slow log
	missed atomic.Bool  // somebody had data while another one held mu, or while the connection tried alone
	woken  atomic.Bool  // the connection is to poll: the deadline that it sleeps until was moved
	owed   atomic.Bool  // the data was left to the connection; set while mu is held
}

type waitState uint8

const (
	waiting  waitState = iota
	served             // out is the reply
	alone              // the connection tries by itself
	finished           // it waits no longer
)

// claim takes mu for a try in another one's transaction, unless somebody else tries, or there is nothing to try for.
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

// unclaim gives mu back after a try that had no reply. needLocks: there may be something, but locks are missing. It
// reports whether to try once more.
func (w *waiter) unclaim(needLocks bool) (again bool) {
	missed := w.missed.Load()
	if needLocks {
		w.owed.Store(true)
	}
	w.mu.Unlock()
	if needLocks || missed {
		w.wake() // it tries by itself
		return false
	}
	return w.missed.Load() // since just now
}

// serve makes what is in out the reply, or the error; mu is held, or the connection tries alone.
func (w *waiter) serve(err error) {
	if err != nil {
		w.out.Reset()
		command.WriteError(&w.out, err)
	}
	w.state, w.err = served, err
}

// settle ends a try that had a reply, after the commit: the connection is woken to send it, or waits on if err says
// that the commit has failed.
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

// poll decides what the connection does that was woken: it sends the reply, which is that of a timeout when the time is
// up, or it tries alone.
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

// endAlone ends a try of the connection itself, and reports whether there is a reply: otherwise it waits on.
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
	w.owed.Store(false) // there is nothing for those behind it either
	w.state = waiting
	if w.missed.Load() {
		w.woken.Store(true) // once more
	}
	return false
}

// unblock ends the wait with the reply of a timeout, or with an error. It reports whether the client was waiting.
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

// redirect ends the wait for keys that this node serves no longer. While the connection tries alone, that finds out.
func (w *waiter) redirect(t *cluster.Topology) {
	err := w.route(t)
	if err == nil || w.unblock(err) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state == alone {
		w.missed.Store(true)
	}
}

// route returns where a client that waits for keys is to be sent.
func (w *waiter) route(t *cluster.Topology) error {
	if len(w.wait.Keys) == 0 {
		return nil
	}
	return t.Route(cf.Slot(w.wait.Keys[0]), cluster.Access{ReadOnly: w.readOnly, Asking: w.asking})
}

// end is unblock with an error, also for a connection that tries alone: then it is the reply unless the try has one.
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

// wake makes the connection look what has become of its wait.
func (w *waiter) wake() {
	w.woken.Store(true)
	w.conn.wire.Wake()
}

// hold keeps back what tracking tells the client of the commit that serves it: the reply comes first, as everywhere.
func (w *waiter) hold() {
	if t := w.conn.info.track.Load(); t != nil {
		t.Begin()
	}
}

// release sends what was kept back.
func (w *waiter) release() {
	if t := w.conn.info.track.Load(); t != nil {
		t.Idle(nil)
	}
}

// mayServe reports whether there may be something for the waiter: the record is in memory, and the handler need not
// be tried by a thousand waiters for one element.
func (w *waiter) mayServe(tx *engine.Tx, key []byte) bool {
	rec, err := tx.LoadHead(key)
	if err != nil {
		return false
	}
	return rec.Exists && rec.Type == w.wait.Type || w.wait.Gone && (!rec.Exists || rec.Type != w.wait.Type)
}

// waitTable knows who waits for which keys.
type waitTable struct {
	n     atomic.Int64 // clients that wait
	mu    sync.Mutex
	byKey map[string][]*waiter // in the order in which they came
	acks  map[*waiter]bool     // those who wait for replicas
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
			// A new slice: others may be going through the old one.
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

// acked lets those who wait for replicas, and for whom enough have acknowledged, try by themselves.
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

// counts returns how many keys are waited for, and how many of them also to be deleted.
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

// wakeAll lets those who wait for some keys try by themselves.
func (t *waitTable) wakeAll(nsKeys []string) {
	for _, k := range nsKeys {
		for _, w := range t.of([]byte(k)) {
			w.wake()
		}
	}
}

// of returns those who wait for a key. The slice is not changed afterwards.
func (t *waitTable) of(nsKey []byte) []*waiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := t.byKey[string(nsKey)]
	return list[:len(list):len(list)]
}

// keys returns the keys that somebody waits for.
func (t *waitTable) keys() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.byKey))
}

// all returns all who wait, for keys or replicas, in any order.
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

// keyspaceChanged lets those try again who also wait for the end of a key: a flush has no keys to find them by.
func (t *waitTable) keyspaceChanged() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, list := range t.byKey {
		for _, w := range list {
			if w.wait.Gone {
				w.missed.Store(true)
				w.wake()
			}
		}
	}
}
