package auth

import (
	"cmp"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

// errReplicaNamespaces is Kvrocks's error on a replica whose namespaces come from its master.
var errReplicaNamespaces = engine.NewError("ERR", "namespace is read-only for slave")

// Namespaces implements command.Namespaces.
type Namespaces struct{ *Auth }

// List returns the namespaces sorted by token; the default one, with requirepass, is last.
func (n Namespaces) List() []command.Namespace {
	var all []command.Namespace
	for name, token := range n.options.Settings.Namespaces() {
		all = append(all, command.Namespace{Name: name, Token: token})
	}
	slices.SortFunc(all, func(a, b command.Namespace) int { return cmp.Compare(a.Token, b.Token) })
	return append(all, command.Namespace{Name: cf.DefaultNamespace, Token: n.options.Settings.RequirePass()})
}

// Add implements NAMESPACE ADD.
func (n Namespaces) Add(name, token string) error {
	return n.changed("add", name, func() error { return n.options.Settings.AddNamespace(name, token) })
}

// Set implements NAMESPACE SET.
func (n Namespaces) Set(name, token string) error {
	return n.changed("set", name, func() error { return n.options.Settings.SetNamespace(name, token) })
}

// Delete implements NAMESPACE DEL. Connections in the namespace remain there.
func (n Namespaces) Delete(name string) error {
	return n.changed("delete", name, func() error { return n.options.Settings.DeleteNamespace(name) })
}

func (n Namespaces) changed(what, name string, change func() error) error {
	if n.options.FromMaster() {
		return errReplicaNamespaces
	}
	if err := change(); err != nil {
		return engine.NewError("ERR", err.Error())
	}
	n.Refresh()
	n.options.Log.Info("namespaces were changed", zap.String("what", what), zap.String("namespace", name))
	return nil
}

// NamespaceStore stores namespaces in the propagate family of a database, as Kvrocks does.
type NamespaceStore struct{ DB *engine.DB }

// LoadNamespaces returns the tokens of the namespaces in the database by namespace.
func (n NamespaceStore) LoadNamespaces() (tokens map[string]string, err error) {
	err = n.DB.View(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
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
func (n NamespaceStore) StoreNamespaces(tokens map[string]string) error {
	value, err := cf.AppendNamespaces(nil, tokens)
	if err != nil {
		return err
	}
	return n.DB.Update(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		tx.Put(cf.Propagate, []byte(cf.PropagateNamespaces), value)
		return nil
	})
}
