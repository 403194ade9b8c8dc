package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"sync"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/command"
)

// access knows the passwords: requirepass, which makes an administrator of the default namespace, and the token
// of each namespace. Only their hashes are kept, so that comparing takes the same time whatever the lengths.
type access struct {
	change sync.Mutex // held from the reading of the passwords until they are in force
	mu     sync.RWMutex
	admin  *[sha256.Size]byte // nil = no password is needed
	tokens []namespaceToken
}

type namespaceToken struct {
	namespace string
	hash      [sha256.Size]byte
}

// set replaces all passwords; tokens are by namespace.
func (a *access) set(requirepass string, tokens map[string]string) {
	var admin *[sha256.Size]byte
	if requirepass != "" {
		h := sha256.Sum256([]byte(requirepass))
		admin = &h
	}
	var list []namespaceToken
	for ns, token := range tokens {
		list = append(list, namespaceToken{ns, sha256.Sum256([]byte(token))})
	}
	a.mu.Lock()
	a.admin, a.tokens = admin, list
	a.mu.Unlock()
}

// refreshAccess takes over the passwords of the settings.
func (s *Server) refreshAccess() {
	s.access.change.Lock()
	defer s.access.change.Unlock()
	s.access.set(s.cfg.RequirePass(), s.cfg.Namespaces())
}

// PasswordRequired reports whether a client must authenticate.
func (s *Server) PasswordRequired() bool {
	s.access.mu.RLock()
	defer s.access.mu.RUnlock()
	return s.access.admin != nil
}

// Authenticate returns what a password stands for. All passwords are compared, whichever fits.
func (s *Server) Authenticate(password []byte) (id command.Identity, ok bool) {
	h := sha256.Sum256(password)
	s.access.mu.RLock()
	defer s.access.mu.RUnlock()
	if s.access.admin != nil && subtle.ConstantTimeCompare(h[:], s.access.admin[:]) == 1 {
		id, ok = command.Identity{Namespace: cf.DefaultNamespace, Admin: true}, true
	}
	for i := range s.access.tokens {
		t := &s.access.tokens[i]
		if subtle.ConstantTimeCompare(h[:], t.hash[:]) == 1 && !ok {
			id, ok = command.Identity{Namespace: t.namespace}, true
		}
	}
	return id, ok
}
