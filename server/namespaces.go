package server

import (
	"cmp"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

// errReplicaNamespaces is what Kvrocks answers on a replica that has its namespaces from its master.
var errReplicaNamespaces = engine.NewError("ERR", "namespace is read-only for slave")

// namespaces are the namespaces as commands see them.
type namespaces struct{ *Server }

// List returns the namespaces sorted by their tokens, the default one with requirepass last.
func (s namespaces) List() []command.Namespace {
	var all []command.Namespace
	for name, token := range s.cfg.Namespaces() {
		all = append(all, command.Namespace{Name: name, Token: token})
	}
	slices.SortFunc(all, func(a, b command.Namespace) int { return cmp.Compare(a.Token, b.Token) })
	return append(all, command.Namespace{Name: cf.DefaultNamespace, Token: s.cfg.RequirePass()})
}

// Add is NAMESPACE ADD.
func (s namespaces) Add(name, token string) error {
	return s.changeNamespace("add", name, func() error { return s.cfg.AddNamespace(name, token) })
}

// Set is NAMESPACE SET.
func (s namespaces) Set(name, token string) error {
	return s.changeNamespace("set", name, func() error { return s.cfg.SetNamespace(name, token) })
}

// Delete is NAMESPACE DEL. Connections that are in the namespace stay there.
func (s namespaces) Delete(name string) error {
	return s.changeNamespace("delete", name, func() error { return s.cfg.DeleteNamespace(name) })
}

func (s *Server) changeNamespace(what, name string, change func() error) error {
	if _, _, replica := s.cfg.Master(); replica && s.cfg.Bool("repl-namespace-enabled") {
		return errReplicaNamespaces
	}
	if err := change(); err != nil {
		return engine.NewError("ERR", err.Error())
	}
	s.refreshAccess()
	s.log.Info("namespaces were changed", zap.String("what", what), zap.String("namespace", name))
	return nil
}

// loadNamespaces reads the namespaces that live in the database.
func (s *Server) loadNamespaces() error {
	if err := s.cfg.UseNamespaceStore(namespaceStore{s.db}); err != nil {
		return err
	}
	s.refreshAccess()
	if len(s.cfg.Namespaces()) > 0 && s.cfg.RequirePass() == "" {
		s.log.Warn("requirepass is empty: the tokens of the namespaces in the database are not asked for")
	}
	return nil
}

// namespaceStore keeps the namespaces in the propagate family, as Kvrocks does.
type namespaceStore struct{ db *engine.DB }

// LoadNamespaces returns the tokens of the namespaces in the database.
func (n namespaceStore) LoadNamespaces() (tokens map[string]string, err error) {
	err = n.db.View(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		value, found, err := tx.Get(cf.Propagate, []byte(cf.PropagateNamespaces))
		if err != nil || !found {
			return err
		}
		if tokens, err = cf.DecodeNamespaces(value); err != nil {
			return fmt.Errorf("key %q of the family propagate: %w", cf.PropagateNamespaces, err)
		}
		return nil
	})
	return tokens, err
}

// StoreNamespaces replaces the namespaces in the database.
func (n namespaceStore) StoreNamespaces(tokens map[string]string) error {
	value, err := cf.AppendNamespaces(nil, tokens)
	if err != nil {
		return err
	}
	return n.db.Update(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		tx.Put(cf.Propagate, []byte(cf.PropagateNamespaces), value)
		return nil
	})
}
