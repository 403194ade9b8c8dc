package server

import (
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/lua"
)

// Libraries are kept in the database as Kvrocks keeps them: the source under the library's name, and for each function
// the name of its library. All of them are in memory too. They change only with all key locks held.

// readLibraries loads the libraries of the database. One that cannot be loaded is left where it is.
func (s *scripts) readLibraries() {
	var sources [][]byte
	err := s.srv.db.View(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		it := tx.Iter(cf.Propagate, engine.IterOptions{Prefix: []byte(cf.PropagateLibrary)})
		defer it.Close()
		for it.Next() {
			sources = append(sources, slices.Clone(it.Value()))
		}
		return it.Err()
	})
	if err != nil {
		s.srv.log.Error("the function libraries cannot be read", zap.Error(err))
	}
	for _, source := range sources {
		l, err := s.engine.Library(source)
		if err == nil {
			err = s.admit(l, false)
		}
		if err != nil {
			s.srv.log.Error("a function library cannot be loaded", zap.Error(err))
		}
	}
}

// admit adds a library to those in memory.
func (s *scripts) admit(l *lua.Library, replace bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.libraries[l.Name]
	if old != nil && !replace {
		return engine.NewError("ERR", "Library '"+l.Name+"' already exists")
	}
	for _, f := range l.Functions {
		// Redis tells only functions of different libraries apart.
		if g := s.functions[folded(f.Name())]; g != nil && g.Library != old {
			return engine.NewError("ERR", "Function "+f.Name()+" already exists")
		}
	}
	s.drop(old)
	s.libraries[l.Name] = l
	for _, f := range l.Functions {
		s.functions[folded(f.Name())] = f
	}
	return nil
}

// drop forgets a library; mu is held.
func (s *scripts) drop(l *lua.Library) {
	if l == nil {
		return
	}
	delete(s.libraries, l.Name)
	for _, f := range l.Functions {
		delete(s.functions, folded(f.Name()))
	}
}

// folded is the key of a function among others: case does not matter.
func folded(name string) string { return strings.ToLower(name) }

func (s *scripts) function(name []byte) *lua.Function {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.functions[folded(string(name))]
}

// LoadLibrary keeps a library.
func (s *scripts) LoadLibrary(tx *engine.Tx, source []byte, replace bool) (string, error) {
	l, err := s.engine.Library(source)
	if err != nil {
		return "", scriptError(err)
	}
	s.mu.RLock()
	old := s.libraries[l.Name]
	s.mu.RUnlock()
	if err := s.admit(l, replace); err != nil {
		return "", err
	}
	if old != nil {
		erase(tx, old)
	}
	store(tx, l)
	return l.Name, nil
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

// DeleteLibrary forgets a library.
func (s *scripts) DeleteLibrary(tx *engine.Tx, name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.libraries[name]
	if l == nil {
		return false
	}
	s.drop(l)
	erase(tx, l)
	return true
}

// FlushLibraries forgets all libraries.
func (s *scripts) FlushLibraries(tx *engine.Tx) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.libraries {
		erase(tx, l)
	}
	clear(s.libraries)
	clear(s.functions)
}

// RestoreLibraries keeps libraries, all or none.
func (s *scripts) RestoreLibraries(tx *engine.Tx, sources [][]byte, flush, replace bool) error {
	var fresh []*lua.Library
	for _, source := range sources {
		l, err := s.engine.Library(source)
		if err != nil {
			return scriptError(err)
		}
		fresh = append(fresh, l)
	}
	s.mu.Lock()
	libraries, functions := maps.Clone(s.libraries), maps.Clone(s.functions)
	if flush {
		clear(s.libraries)
		clear(s.functions)
	}
	s.mu.Unlock()
	for _, l := range fresh {
		if err := s.admit(l, replace); err != nil {
			s.mu.Lock()
			s.libraries, s.functions = libraries, functions
			s.mu.Unlock()
			return err
		}
	}
	for name, l := range libraries {
		if s.libraries[name] != l {
			erase(tx, l)
		}
	}
	for _, l := range fresh {
		store(tx, l)
	}
	return nil
}

// Libraries returns the libraries, sorted by name.
func (s *scripts) Libraries() []*lua.Library {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(maps.Values(s.libraries), func(a, b *lua.Library) int { return strings.Compare(a.Name, b.Name) })
}

// Running returns the function that runs for some time.
func (s *scripts) Running() (string, time.Duration, bool) {
	r, since, ok := s.engine.Running()
	if !ok || r.Function == nil {
		return "", 0, false
	}
	return r.Function.Name(), time.Since(since), true
}
