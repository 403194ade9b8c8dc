package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/durable"
	"github.com/basaltdb/basalt/server/cluster/topology"
)

// marksSuffix is appended to the path of nodes.conf to name the file of marks.
const marksSuffix = ".migrated"

// files are nodes.conf and the file of marks. A change of the Map and a change of the settings may write them at the
// same time without waiting for each other.
type files struct {
	path  string
	mu    sync.Mutex
	on    bool // whether the files are kept
	marks bool // whether a file of marks may exist
}

// save replaces nodes.conf as a whole.
func (f *files) save(t *topology.Topology) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on {
		return nil
	}
	return reply(durable.Replace(f.path, fmt.Appendf(nil, "version %d\nid %s\n%s", t.Version, t.ID, t.FileText()), 0o644))
}

// saveMarks writes the text of the marks. Without marks it removes the file.
func (f *files) saveMarks(text string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.on || text == "" && !f.marks:
		return nil
	case text == "":
		err := removeFile(f.path + marksSuffix)
		f.marks = err != nil
		return reply(err)
	}
	f.marks = true
	return reply(durable.Replace(f.path+marksSuffix, []byte(text), 0o644))
}

// ownMarks returns the text of the marks that are kept beside nodes.conf. A replica's marks are in its database.
func ownMarks(t *topology.Topology) string {
	if t.IsReplica() {
		return ""
	}
	return t.MarksText()
}

// keep starts or stops keeping the files.
func (f *files) keep(on bool, now *atomic.Pointer[topology.Topology]) error {
	f.mu.Lock()
	f.on = on
	f.mu.Unlock()
	if !on {
		return f.remove()
	}
	t := now.Load()
	return cmp.Or(f.save(t), f.saveMarks(ownMarks(t)))
}

// remove removes both files.
func (f *files) remove() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return reply(errors.Join(removeFile(f.path), removeFile(f.path+marksSuffix)))
}

// reply turns an error into one that a client may see.
func reply(err error) error {
	if err == nil {
		return nil
	}
	return engine.NewError("ERR", err.Error())
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Master returns this node's master according to the topology in a file. known is false when the file has no topology.
func Master(path string) (master *topology.Node, known bool, err error) {
	t, _, err := load(path)
	if err != nil || t.Version < 0 {
		return nil, false, err
	}
	if self := t.Node(t.ID); self != nil && !self.IsMaster() {
		master = t.Node(self.Master)
	}
	return master, true, nil
}

// load reads a file that save or Kvrocks has written. marked reports whether there is a file of marks.
func load(path string) (t *topology.Topology, marked bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return topology.None(""), false, nil
	}
	if err != nil {
		return nil, false, err
	}
	t, err = topology.ParseFile(text)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	marks, err := os.ReadFile(path + marksSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return t, false, nil
	}
	if err == nil {
		err = t.ParseMarks(marks)
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s%s: %w", path, marksSuffix, err)
	}
	return t, true, nil
}
