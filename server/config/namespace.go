package config

import (
	"errors"
	"maps"
)

// Errors of namespaces, with Kvrocks's texts.
var (
	ErrNamespaceExists     = errors.New("the namespace already exists")
	ErrTokenExists         = errors.New("the token already exists")
	ErrNamespaceNotFound   = errors.New("the namespace was not found")
	ErrNamespaceNoPass     = errors.New("forbidden to add namespace when requirepass was empty")
	ErrNamespaceCluster    = errors.New("forbidden to add namespace when cluster mode was enabled")
	ErrNamespaceAddDefault = errors.New("forbidden to add the default namespace")
	ErrNamespaceDelDefault = errors.New("forbidden to delete the default namespace")
	ErrTokenIsPassword     = errors.New("the token is duplicated with requirepass or masterauth")
	ErrNamespaceLength     = errors.New("size exceed limit 255")
	ErrNamespaceLetter     = errors.New("namespace contain illegal letter")
	ErrTokenEmpty          = errors.New("the token must not be empty")
)

// defaultNamespace is the name of the namespace whose token is requirepass.
const defaultNamespace = "__namespace"

// Namespaces returns the token of each namespace but the default one. The map must not be changed.
func (c *Config) Namespaces() map[string]string { return c.state.Load().tokens }

// AddNamespace adds a namespace. Adding one that exists with the same token changes nothing.
func (c *Config) AddNamespace(name, token string) error {
	return c.updateNamespaces(func(st *state) error {
		if have, ok := st.tokens[name]; ok {
			if have == token {
				return nil
			}
			return ErrNamespaceExists
		}
		return st.putNamespace(name, token)
	})
}

// SetNamespace adds a namespace or replaces its token. A namespace that has that token already is an error.
func (c *Config) SetNamespace(name, token string) error {
	return c.updateNamespaces(func(st *state) error {
		delete(st.tokens, name)
		return st.putNamespace(name, token)
	})
}

// DeleteNamespace removes a namespace; its keys stay in the database.
func (c *Config) DeleteNamespace(name string) error {
	return c.updateNamespaces(func(st *state) error {
		if name == defaultNamespace {
			return ErrNamespaceDelDefault
		}
		if _, ok := st.tokens[name]; !ok {
			return ErrNamespaceNotFound
		}
		delete(st.tokens, name)
		return nil
	})
}

// ReplaceNamespaces replaces all namespaces, with those of the database.
func (c *Config) ReplaceNamespaces(tokens map[string]string) error {
	return c.updateNamespaces(func(st *state) error {
		st.tokens = map[string]string{}
		for name, token := range tokens {
			if err := st.putNamespace(name, token); err != nil {
				return err
			}
		}
		return nil
	})
}

func (c *Config) updateNamespaces(change func(*state) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	st := &state{old.values, old.limits, maps.Clone(old.tokens)}
	if err := change(st); err != nil {
		return err
	}
	c.state.Store(st)
	return nil
}

// putNamespace adds a namespace to a state under construction.
func (st *state) putNamespace(name, token string) error {
	switch {
	case name == defaultNamespace:
		return ErrNamespaceAddDefault
	case len(name) == 0 || len(name) > 255:
		return ErrNamespaceLength
	case name[len(name)-1] == 0x7f:
		return ErrNamespaceLetter
	case token == "":
		return ErrTokenEmpty
	case st.values[requirePass].text == "":
		return ErrNamespaceNoPass
	case st.values[clusterEnabled].num != 0:
		return ErrNamespaceCluster
	case token == st.values[requirePass].text, token == st.values[masterAuth].text:
		return ErrTokenIsPassword
	}
	for other, t := range st.tokens {
		if t == token && other != name {
			return ErrTokenExists
		}
	}
	st.tokens[name] = token
	return nil
}
