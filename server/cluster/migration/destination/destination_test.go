package destination

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

// slots is the state of a node's slots: one word.
type slots struct{ is string }

func (s *slots) Importing(cf.SlotRange)      { s.is = "importing" }
func (s *slots) ImportEnded(cf.SlotRange)    { s.is = "" }
func (s *slots) Imported(cf.SlotRange) error { s.is = "imported"; return nil }
func (s *slots) Arrived(cf.SlotRange) error  { s.is = "arrived"; return nil }
func (s *slots) Confirmed(cf.SlotRange)      { s.is = "imported" }
func (s *slots) Revoked(cf.SlotRange)        { s.is = "" }

// link is a connection that ends when it is closed.
type link struct {
	id    int64
	ended chan struct{}
}

func newLink(id int64) *link           { return &link{id, make(chan struct{})} }
func (l *link) ID() int64              { return l.id }
func (l *link) Close()                 { close(l.ended) }
func (l *link) Ended() <-chan struct{} { return l.ended }

// node is a node as the destination of a migration.
type node struct {
	t     *testing.T
	db    *engine.DB
	slots slots
	path  string
	*Import
}

func start(t *testing.T) *node {
	n := &node{t: t, db: enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true}),
		path: t.TempDir() + "/import"}
	n.open()
	return n
}

// open starts a process.
func (n *node) open() {
	imp, err := New(Options{DB: n.db, Slots: &n.slots, Path: n.path, Log: zap.NewNop(),
		Has:       func(uint16) bool { return n.slots.is == "imported" || n.slots.is == "arrived" },
		IsReplica: func() bool { return false }})
	require.NoError(n.t, err)
	n.Import = imp
}

var foo = cf.SlotRange{First: cf.Slot([]byte("foo")), Last: cf.Slot([]byte("foo"))}

// set writes a key, as the source does.
func (n *node) set() {
	n.t.Helper()
	enginetest.Update(n.t, n.db, enginetest.Bytes("{foo}a"), func(tx *engine.Tx) error {
		_, err := str.Set(tx, []byte("{foo}a"), []byte("v"), str.SetOptions{})
		return err
	})
}

// check compares the state of the import and of the slots, and checks whether the key and the mark exist.
func (n *node) check(what string, state State, slots string, key, mark bool) {
	n.t.Helper()
	there := false
	enginetest.View(n.t, n.db, nil, func(tx *engine.Tx) (err error) {
		_, there, err = tx.Get(cf.Metadata, cf.AppendNSKey(nil, cf.DefaultNamespace, []byte("{foo}a"), true))
		return err
	})
	_, err := os.Stat(n.path)
	if _, got := n.Status(); got != state || n.slots.is != slots || there != key || (err == nil) != mark {
		n.t.Errorf("%s: state %s, slots %q, key %t, mark %v; want %s, %q, %t, %t", what, got, n.slots.is, there, err,
			state, slots, key, mark)
	}
}

func (n *node) must(err error) {
	n.t.Helper()
	require.NoError(n.t, err)
}

// TestImport checks the key, the mark and the slots after each step, for all ends of an import.
func TestImport(t *testing.T) {
	n := start(t)
	n.set() // of an earlier time
	a := newLink(1)
	n.must(n.Start(a, foo))
	n.check("begun", Started, "importing", false, true)
	n.set()
	n.must(n.Succeed(a, foo))
	n.check("success", Success, "imported", true, false)
	n.must(n.Fail(a, foo))
	n.check("revoked", Failed, "", false, false)

	n.must(n.Start(a, foo))
	n.must(n.Verify(a, foo))
	n.set()
	n.must(n.Succeed(a, foo))
	n.check("arrived", Success, "arrived", true, false)
	n.must(n.Confirm(a, foo))
	n.check("confirmed", Success, "imported", true, false)
	n.slots.is = "" // the topology has given them to another node
	if err := n.Succeed(newLink(1), foo); err == nil {
		t.Error("who asks is told that the slots are here")
	}

	n.must(n.Start(a, foo))
	n.set()
	n.LinkEnded(a)
	n.check("the source is gone", Failed, "", false, false)

	n.must(n.Start(a, foo))
	n.set()
	n.slots.is = ""
	n.open()
	n.check("killed", None, "", false, false)
}

// TestLinks: which connection may send which command, and when.
func TestLinks(t *testing.T) {
	n := start(t)
	old, first, second := newLink(1), newLink(2), newLink(3)
	n.must(n.Start(first, foo))
	other := cf.SlotRange{First: 1, Last: 2}
	for what, err := range map[string]error{
		"mismatch slot":               n.Succeed(first, other),
		"only one importing job":      n.Start(second, other),
		"a newer connection":          n.Start(old, foo),
		"the import of the slots has": n.Verify(second, foo),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	n.must(n.Start(second, foo))
	select {
	case <-first.ended:
	default:
		t.Error("the first connection lives")
	}
	n.LinkEnded(first)
	n.check("another connection has begun it again", Started, "importing", false, true)
	if err := n.Succeed(newLink(4), foo); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("who asks instead: %v", err)
	}
	n.check("the source has asked", Failed, "", false, false)
}
