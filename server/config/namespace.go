package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/basaltdb/basalt/server/config/setting"
)

// Errors of namespaces. Their texts are those of Kvrocks.
var (
	ErrNamespaceExists   = errors.New("the namespace already exists")
	ErrTokenExists       = errors.New("the token already exists")
	ErrNamespaceNotFound = errors.New("the namespace was not found")
	ErrNamespaceNoPass   = errors.New("forbidden to add namespace when requirepass was empty")
	ErrNamespaceCluster  = errors.New("forbidden to add namespace when cluster mode was enabled")
	ErrNamespaceNowhere  = errors.New("modify namespace requires the server is running with a configuration file or " +
		"enabled namespace replication")
	ErrNamespaceAddDefault = errors.New("forbidden to add the default namespace")
	ErrNamespaceDelDefault = errors.New("forbidden to delete the default namespace")
	ErrTokenIsPassword     = errors.New("the token is duplicated with requirepass or masterauth")
	ErrNamespaceLength     = errors.New("size exceed limit 255")
	ErrNamespaceLetter     = errors.New("namespace contain illegal letter")
	ErrTokenEmpty          = errors.New("the token must not be empty")
	ErrNamespacesStored    = errors.New("cannot switch off repl_namespace_enabled when namespaces exist in db")
	ErrStoredDatabases     = errors.New("redis-databases wasn't allowed while namespaces exist in the database")
)

// defaultNamespace is the name of the namespace whose token is requirepass.
const defaultNamespace = "__namespace"

// NamespaceStore keeps namespaces in the database, where they live while repl-namespace-enabled is yes. The maps give
// the token of each namespace.
type NamespaceStore interface {
	LoadNamespaces() (map[string]string, error)
	StoreNamespaces(tokens map[string]string) error
}

// Namespaces returns the token of each namespace except the default one. The map must not be changed.
func (c *Config) Namespaces() map[string]string { return c.state.Load().tokens }

// AddNamespace adds a namespace and stores the change. If the namespace exists with the same token, nothing changes.
func (c *Config) AddNamespace(name, token string) error {
	return c.updateNamespaces(func(st *state) error {
		have, ok := st.tokens[name]
		switch {
		case ok && have == token:
			return errNoChange
		case ok:
			return ErrNamespaceExists
		case st.tokenUsed(name, token):
			return ErrTokenExists
		}
		return c.putNamespace(st, name, token)
	})
}

// SetNamespace adds a namespace or replaces its token, and stores the change. A token that another namespace has is
// an error; Kvrocks up to 2.13 moves the token, and the other namespace is then gone.
func (c *Config) SetNamespace(name, token string) error {
	return c.updateNamespaces(func(st *state) error { return c.putNamespace(st, name, token) })
}

// DeleteNamespace removes a namespace and stores the change. The keys of the namespace stay in the database.
func (c *Config) DeleteNamespace(name string) error {
	return c.updateNamespaces(func(st *state) error {
		_, ok := st.tokens[name]
		switch {
		case name == defaultNamespace:
			return ErrNamespaceDelDefault
		case !c.canKeep(st):
			return ErrNamespaceNowhere
		case !ok:
			return ErrNamespaceNotFound
		}
		delete(st.tokens, name)
		return nil
	})
}

// errNoChange ends an update that changes nothing.
var errNoChange = errors.New("no change")

// updateNamespaces makes a change and stores it in the file or the database, or does neither.
func (c *Config) updateNamespaces(change func(*state) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	st := &state{old.values, old.limits, maps.Clone(old.tokens)}
	switch err := change(st); err {
	case nil:
	case errNoChange:
		return nil
	default:
		return err
	}
	c.state.Store(st)
	if err := c.keepNamespaces(st, old.tokens); err != nil {
		c.state.Store(old)
		return err
	}
	return nil
}

// canKeep reports whether a change of the namespaces can be stored, so that it outlives the process.
func (c *Config) canKeep(st *state) bool {
	return c.file != "" || st.values[replNamespaceEnabled].Num != 0
}

// keepNamespaces stores the namespaces of the current state st: in the file; or, when they are replicated, in the
// database, and in the file only the setting for that. On an error nothing is stored; stored is the content of the
// database.
func (c *Config) keepNamespaces(st *state, stored map[string]string) error {
	_, _, replica := st.master()
	toDB := c.store != nil && st.values[replNamespaceEnabled].Num != 0 && !replica
	if toDB {
		if err := c.store.StoreNamespaces(st.tokens); err != nil {
			return err
		}
	}
	if c.file == "" {
		return nil
	}
	if err := c.rewrite(); err != nil {
		err = setting.ReplyError("Rewriting config file: " + err.Error())
		if toDB {
			return errors.Join(err, c.store.StoreNamespaces(stored))
		}
		return err
	}
	return nil
}

// UseNamespaceStore names the database in which namespaces live while repl-namespace-enabled is yes, and reads them
// from there. Namespaces that the file still has are moved to the database. With repl-namespace-enabled no,
// namespaces in the database are an error: clients could not reach them.
func (c *Config) UseNamespaceStore(s NamespaceStore) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.store = s
	return c.moveNamespaces()
}

// ReloadNamespaces reads the namespaces from the database after another writer has changed them. If the settings allow
// none there, it returns the error with which the server would refuse to start.
func (c *Config) ReloadNamespaces() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.state.Load()
	if c.store == nil || st.values[clusterEnabled].Num != 0 {
		return nil
	}
	stored, err := c.store.LoadNamespaces()
	if err != nil {
		return err
	}
	if refused := c.MayStoreNamespaces(); refused != nil {
		if len(stored) == 0 {
			return nil
		}
		return fmt.Errorf("this server will not start again: %w", refused)
	}
	tokens := map[string]string{}
	maps.Copy(tokens, stored)
	c.state.Store(&state{st.values, st.limits, tokens})
	return nil
}

// MayStoreNamespaces returns the error with which the server would refuse to start if there were namespaces in the
// database; nil when it would start.
func (c *Config) MayStoreNamespaces() error {
	switch st := c.state.Load(); {
	case st.values[clusterEnabled].Num != 0:
		return nil // the server would not check
	case st.values[replNamespaceEnabled].Num == 0:
		return ErrNamespacesStored
	case st.values[redisDatabases].Num != 0:
		return ErrStoredDatabases
	}
	return nil
}

// moveNamespaces merges the namespaces of the file and of the database, and stores them where the current settings
// want them. For a namespace or a token in both, the file wins.
func (c *Config) moveNamespaces() error {
	st := c.state.Load()
	if c.store == nil || st.values[clusterEnabled].Num != 0 { // a cluster has no namespaces
		return nil
	}
	stored, err := c.store.LoadNamespaces()
	switch {
	case err != nil:
		return err
	case len(stored) > 0 && st.values[replNamespaceEnabled].Num == 0:
		return ErrNamespacesStored
	case len(stored) > 0 && st.values[redisDatabases].Num != 0:
		return ErrStoredDatabases
	}
	merged := st.clone()
	for _, name := range slices.Sorted(maps.Keys(stored)) {
		if _, ok := merged.tokens[name]; !ok && !merged.tokenUsed(name, stored[name]) {
			merged.tokens[name] = stored[name]
		}
	}
	c.state.Store(merged)
	if len(st.tokens) == 0 || st.values[replNamespaceEnabled].Num == 0 {
		return nil
	}
	if err := c.keepNamespaces(merged, stored); err != nil {
		c.state.Store(st)
		return err
	}
	return nil
}

// putNamespace adds a namespace to a state under construction, or replaces its token. The checks are in Kvrocks's
// order.
func (c *Config) putNamespace(st *state, name, token string) error {
	switch {
	case len(name) == 0 || len(name) > 255:
		return ErrNamespaceLength
	case name[len(name)-1] == 0x7f:
		return ErrNamespaceLetter
	case st.values[requirePass].Text == "":
		return ErrNamespaceNoPass
	case st.values[clusterEnabled].Num != 0:
		return ErrNamespaceCluster
	case st.values[redisDatabases].Num != 0:
		return errDBsNS
	case !c.canKeep(st):
		return ErrNamespaceNowhere
	case name == defaultNamespace:
		return ErrNamespaceAddDefault
	case token == "":
		return ErrTokenEmpty
	case token == st.values[requirePass].Text, token == st.values[masterAuth].Text:
		return ErrTokenIsPassword
	case st.tokenUsed(name, token):
		return ErrTokenExists
	}
	st.tokens[name] = token
	return nil
}

// tokenUsed reports whether another namespace has a token.
func (st *state) tokenUsed(name, token string) bool {
	for other, t := range st.tokens {
		if t == token && other != name {
			return true
		}
	}
	return false
}
