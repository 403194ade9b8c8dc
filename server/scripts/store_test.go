package scripts

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/lua"
)

func open(t *testing.T) *Store {
	return Open(Options{DB: enginetest.Open(t), Log: zap.NewNop(), States: 1,
		MemoryLimit: func() int64 { return 0 }, TimeLimit: func() time.Duration { return 0 }})
}

// update runs f in a transaction, with all locks, which is committed unless f fails.
func (s *Store) update(t *testing.T, f func(tx *engine.Tx) error) error {
	t.Helper()
	tx := s.db.NewTx()
	defer tx.Release()
	tx.Begin(cf.DefaultNamespace)
	require.NoError(t, tx.AcquireAll())
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

var errDropped = errors.New("the transaction is dropped")

const (
	one     = "return 1"
	twice   = "#!lua flags=no-writes\nreturn 2"
	library = "#!lua name=lib\nredis.register_function('F', function() return 1 end)"
	other   = "#!lua name=other\nredis.register_function('f', function() return 1 end)"
	newer   = "#!lua name=lib\nredis.register_function{function_name='g', callback=function() end, flags={'no-writes'}}"
)

// What a transaction changes of the scripts is seen by itself at once, by others after the commit, and never if it is
// dropped.
func TestScriptsOfTransactions(t *testing.T) {
	s := open(t)
	has := func(tx *engine.Tx, sha string, want bool) {
		t.Helper()
		if ok, err := s.Has(tx, []byte(sha)); err != nil || ok != want {
			t.Errorf("script %s: %v, %v, want %v", sha, ok, err, want)
		}
	}
	var first, second string
	require.NoError(t, s.update(t, func(tx *engine.Tx) (err error) {
		first, err = s.Load(tx, []byte(one))
		has(tx, first, true)
		return err
	}))
	s.update(t, func(tx *engine.Tx) (err error) {
		if second, err = s.Load(tx, []byte(twice)); err != nil {
			t.Fatal(err)
		}
		has(tx, second, true)
		require.NoError(t, s.Flush(tx, [][]byte{[]byte("SCRIPT"), []byte("FLUSH")}))
		has(tx, first, false)
		return errDropped
	})
	s.update(t, func(tx *engine.Tx) error {
		has(tx, first, true)
		has(tx, second, false)
		s.Forget() // it is found in the database too
		has(tx, first, true)
		return s.Flush(tx, [][]byte{[]byte("SCRIPT"), []byte("FLUSH")})
	})
	s.update(t, func(tx *engine.Tx) error {
		has(tx, first, false)
		if _, err := s.Load(tx, []byte("return (")); err == nil {
			t.Error("a script with a syntax error is kept")
		}
		return nil
	})
}

func TestLibrariesOfTransactions(t *testing.T) {
	s := open(t)
	has := func(tx *engine.Tx, names string, want bool) {
		t.Helper()
		for _, name := range names {
			if got := s.HasFunction(tx, []byte(string(name))); got != want {
				t.Errorf("function %c: %v", name, got)
			}
		}
	}
	load := func(tx *engine.Tx, source string, replace bool) error {
		_, err := s.LoadLibrary(tx, []byte(source), replace)
		return err
	}
	s.update(t, func(tx *engine.Tx) error {
		require.NoError(t, load(tx, library, false))
		has(tx, "fF", true)
		has(nil, "f", false)
		return nil
	})
	has(nil, "fF", true)
	s.update(t, func(tx *engine.Tx) error {
		var exists *command.LibraryExistsError
		if err := load(tx, newer, false); !errors.As(err, &exists) {
			t.Errorf("a library of the same name: %v", err)
		}
		if err := load(tx, other, false); err == nil {
			t.Error("two libraries have the same function")
		}
		require.NoError(t, load(tx, newer, true))
		has(tx, "g", true)
		has(tx, "f", false)
		return errDropped
	})
	has(nil, "f", true)
	has(nil, "g", false)
	s.Reload()
	has(nil, "f", true)
	if m := s.Memory(); m.Libraries != 1 || m.Named != 1 || m.Functions == 0 {
		t.Errorf("memory %+v", m)
	}
	s.update(t, func(tx *engine.Tx) error {
		if !s.DeleteLibrary(tx, "lib") || s.DeleteLibrary(tx, "lib") {
			t.Error("the library is deleted once")
		}
		return s.RestoreLibraries(tx, [][]byte{[]byte(newer), []byte(other)}, false, false)
	})
	has(nil, "fg", true)
	s.update(t, func(tx *engine.Tx) error {
		s.FlushLibraries(tx)
		return nil
	})
	s.Reload()
	has(nil, "fg", false)
}

func TestDeclared(t *testing.T) {
	s := open(t)
	var sha string
	s.update(t, func(tx *engine.Tx) (err error) {
		if sha, err = s.Load(tx, []byte(twice)); err != nil {
			t.Fatal(err)
		}
		_, err = s.LoadLibrary(tx, []byte(newer), false)
		return err
	})
	s.update(t, func(tx *engine.Tx) error {
		for _, tt := range []struct {
			call command.ScriptCall
			ok   bool
		}{
			{command.ScriptCall{Source: []byte(one)}, false},
			{command.ScriptCall{Source: []byte(twice)}, true},
			{command.ScriptCall{SHA: []byte(sha)}, true},
			{command.ScriptCall{SHA: []byte(sha[:39] + "x")}, false},
			{command.ScriptCall{Function: []byte("G")}, true},
			{command.ScriptCall{Function: []byte("nosuch")}, false},
			{command.ScriptCall{}, false},
		} {
			flags, ok := s.Declared(tx, tt.call)
			if ok != tt.ok || ok && flags&lua.NoWrites == 0 {
				t.Errorf("%+v: %v, %v", tt.call, flags, ok)
			}
		}
		return nil
	})
}
