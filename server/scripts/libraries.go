package scripts

import (
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/lua"
)

// Libraries are stored in Kvrocks's layout: the source under the library's name, and for each function the name of its
// library. All libraries are also in memory, in a registry that the commit of a changing transaction replaces. They
// change only while all key locks are held.

// registry is a set of libraries. It is immutable once other goroutines can see it.
type registry struct {
	libraries map[string]*lua.Library
	functions map[string]*lua.Function // by name in lower case: names are case-insensitive
}

func newRegistry() *registry {
	return &registry{map[string]*lua.Library{}, map[string]*lua.Function{}}
}

func (r *registry) clone() *registry {
	return &registry{maps.Clone(r.libraries), maps.Clone(r.functions)}
}

// registryOf returns the libraries that a transaction sees; tx nil = the committed ones.
func (s *Store) registryOf(tx *engine.Tx) *registry {
	if tx != nil {
		if c, ok := tx.Local.(*changes); ok && c.registry != nil {
			return c.registry
		}
	}
	return s.registry.Load()
}

// change sets the libraries that the transaction sees, and after its commit everyone.
func (s *Store) change(tx *engine.Tx, r *registry) {
	changesOf(tx).registry = r
	tx.OnCommit(func() { s.registry.Store(r) })
}

// Reload loads the libraries of the database. It skips a library that cannot be loaded. A library that is loaded
// already keeps its virtual machine, and so the state of its functions.
func (s *Store) Reload() {
	var sources [][]byte
	err := s.db.View(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		it := tx.Iter(cf.Propagate, engine.IterOptions{Prefix: []byte(cf.PropagateLibrary)})
		defer it.Close()
		for it.Next() {
			sources = append(sources, slices.Clone(it.Value()))
		}
		return it.Err()
	})
	if err != nil {
		s.log.Error("the function libraries cannot be read", zap.Error(err))
	}
	old, r := s.registry.Load(), newRegistry()
	for _, source := range sources {
		l, err := old.same(source), error(nil)
		if l == nil {
			l, err = s.engine.StoredLibrary(source)
		}
		if err == nil {
			err = r.admit(l, false)
		}
		if err != nil {
			s.log.Error("a function library cannot be loaded", zap.Error(err))
		}
	}
	s.registry.Store(r)
}

// same returns the loaded library with the same source, nil if there is none.
func (r *registry) same(source []byte) *lua.Library {
	if r == nil {
		return nil
	}
	for _, l := range r.libraries {
		if l.Source == string(source) {
			return l
		}
	}
	return nil
}

// admit adds a library. On an error nothing changes.
func (r *registry) admit(l *lua.Library, replace bool) error {
	old := r.libraries[l.Name]
	if old != nil && !replace {
		return &command.LibraryExistsError{Name: l.Name}
	}
	for _, f := range l.Functions {
		// Like Redis, report only collisions with functions of other libraries.
		if g := r.functions[strings.ToLower(f.Name())]; g != nil && g.Library != old {
			return engine.NewError("ERR", "Function "+f.Name()+" already exists")
		}
	}
	r.drop(old)
	r.libraries[l.Name] = l
	for _, f := range l.Functions {
		r.functions[strings.ToLower(f.Name())] = f
	}
	return nil
}

// drop removes a library; nil does nothing.
func (r *registry) drop(l *lua.Library) {
	if l == nil {
		return
	}
	delete(r.libraries, l.Name)
	for _, f := range l.Functions {
		delete(r.functions, strings.ToLower(f.Name()))
	}
}

// Function returns the function of a name that the transaction sees, nil if it does not exist.
func (s *Store) Function(tx *engine.Tx, name []byte) *lua.Function {
	return s.registryOf(tx).functions[strings.ToLower(string(name))]
}

// HasFunction reports whether the transaction sees a function.
func (s *Store) HasFunction(tx *engine.Tx, name []byte) bool { return s.Function(tx, name) != nil }

func (s *Store) LoadLibrary(tx *engine.Tx, source []byte, replace bool) (string, error) {
	name, err := lua.LibraryName(source)
	if err != nil {
		return "", Error(err)
	}
	r := s.registryOf(tx).clone()
	old := r.libraries[name]
	if old != nil && !replace { // before its code runs, as in Redis
		return "", &command.LibraryExistsError{Name: name}
	}
	l, err := s.engine.Library(source)
	if err != nil {
		return "", Error(err)
	}
	if err := r.admit(l, replace); err != nil {
		return "", err
	}
	if old != nil {
		erase(tx, old)
	}
	store(tx, l)
	s.change(tx, r)
	return l.Name, nil
}

// StoreLibrary writes the records of LoadLibrary in a transaction of any database.
func (s *Store) StoreLibrary(tx *engine.Tx, source []byte) error {
	l, err := s.engine.Library(source)
	if err != nil {
		return Error(err)
	}
	store(tx, l)
	return nil
}

func store(tx *engine.Tx, l *lua.Library) {
	for _, f := range l.Functions {
		tx.Put(cf.Propagate, []byte(cf.PropagateFunction+f.Name()), []byte(l.Name))
	}
	tx.Put(cf.Propagate, []byte(cf.PropagateLibrary+l.Name), []byte(l.Source))
}

func erase(tx *engine.Tx, l *lua.Library) {
	for _, f := range l.Functions {
		tx.Delete(cf.Propagate, []byte(cf.PropagateFunction+f.Name()))
	}
	tx.Delete(cf.Propagate, []byte(cf.PropagateLibrary+l.Name))
}

// DeleteLibrary deletes a library and reports whether it existed.
func (s *Store) DeleteLibrary(tx *engine.Tx, name string) bool {
	r := s.registryOf(tx).clone()
	l := r.libraries[name]
	if l == nil {
		return false
	}
	r.drop(l)
	erase(tx, l)
	s.change(tx, r)
	return true
}

// FlushLibraries deletes all libraries.
func (s *Store) FlushLibraries(tx *engine.Tx) {
	for _, l := range s.registryOf(tx).libraries {
		erase(tx, l)
	}
	s.change(tx, newRegistry())
}

// RestoreLibraries loads and stores libraries: all or none.
func (s *Store) RestoreLibraries(tx *engine.Tx, sources [][]byte, flush, replace bool) error {
	var fresh []*lua.Library
	for _, source := range sources {
		l, err := s.engine.Library(source)
		if err != nil {
			return Error(err)
		}
		fresh = append(fresh, l)
	}
	old := s.registryOf(tx)
	r := newRegistry()
	if !flush {
		r = old.clone()
	}
	for _, l := range fresh {
		if err := r.admit(l, replace); err != nil {
			return err
		}
	}
	for name, l := range old.libraries {
		if r.libraries[name] != l {
			erase(tx, l)
		}
	}
	for _, l := range fresh {
		if r.libraries[l.Name] == l { // not replaced by a later library of the dump
			store(tx, l)
		}
	}
	s.change(tx, r)
	return nil
}

// Libraries returns the libraries, sorted by name.
func (s *Store) Libraries(tx *engine.Tx) []*lua.Library {
	return slices.SortedFunc(maps.Values(s.registryOf(tx).libraries), func(a,
		b *lua.Library) int {
		return strings.Compare(a.Name, b.Name)
	})
}

// Running returns the function that has been running for some time.
func (s *Store) Running() (f lua.Running, ok bool) {
	f, ok = s.engine.Running()
	return f, ok && f.Function
}
