package server

import (
	"strings"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/server/acl"
	"github.com/basaltdb/basalt/server/auth"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/config/conffile"
	"github.com/basaltdb/basalt/server/options"
)

// newAuth creates the users. loadUsers adds the users that the settings declare.
func (s *Server) newAuth() *auth.Auth {
	return auth.New(auth.Options{
		Settings: s.cfg,
		Log:      s.log,
		ACL:      options.Accounts(s.cfg),
		FromMaster: func() bool {
			_, _, replica := s.cfg.Master()
			return replica && s.cfg.Bool("repl-namespace-enabled")
		},
		OnChannelsLost: func(user *acl.User) { s.sessions.CloseSubscribers(user) },
		Describe:       func(id int64) string { return s.sessions.Describe(id) },
	})
}

// presentUsers returns the users for CONFIG REWRITE: none if they are in the aclfile, and the default user only if
// requirepass does not describe it completely. So a file without users remains readable for Kvrocks.
func (s *Server) presentUsers(requirePass string) (list []conffile.User) {
	if s.auth.HasFile() {
		return nil
	}
	users := s.auth.ACL()
	for _, u := range users.Users() {
		if u.Name() != acl.DefaultUser || !users.DefaultIs(requirePass) {
			words := strings.Split(u.String(), " ")
			list = append(list, conffile.User{Name: words[1], Rules: words[2:]})
		}
	}
	return list
}

// loadUsers declares the users of the configuration, or of the aclfile if that is set.
func (s *Server) loadUsers() error {
	users, err := options.Users(s.cfg, command.ACLTable())
	if err != nil {
		return err
	}
	err = s.auth.Declare(users)
	s.cfg.KeepUsers(s.presentUsers)
	return err
}

// loadNamespaces loads the namespaces that are stored in the database.
func (s *Server) loadNamespaces() error {
	if err := s.cfg.UseNamespaceStore(auth.NamespaceStore{DB: s.db}); err != nil {
		return err
	}
	s.auth.Refresh()
	if len(s.cfg.Namespaces()) > 0 && s.cfg.RequirePass() == "" {
		s.log.Warn("requirepass is empty, so the namespaces in the database do not require their tokens")
	}
	return nil
}

// refreshNamespaces reads the namespaces in the database again, after another server's writes have changed them.
func (s *Server) refreshNamespaces() {
	if err := s.cfg.ReloadNamespaces(); err != nil {
		s.log.Error("the namespaces in the database are not used", zap.Error(err))
	}
	s.auth.Refresh()
}
