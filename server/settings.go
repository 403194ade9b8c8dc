package server

import (
	"fmt"
	"net"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/acl/accounts"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/logging"
	"github.com/basaltdb/basalt/server/options"
)

// Check validates settings whose validity depends on the server, such as names of commands. An error is one line with
// the file, the line and the key. In a cluster, Check also sets the stored role of the node, master or replica, in the
// settings.
func Check(cfg *config.Config) error {
	if _, err := options.Commands(cfg); err != nil {
		return err
	}
	if _, err := options.Users(cfg, command.ACLTable()); err != nil {
		return err
	}
	if err := options.CheckTLS(cfg); err != nil {
		return err
	}
	if _, err := logging.ParseTargets(cfg.Text("log-dir")); err != nil {
		return fmt.Errorf("log-dir: %w", err)
	}
	if err := checkACLFile(cfg); err != nil {
		return err
	}
	return adoptRole(cfg)
}

// checkACLFile reads the aclfile, if one is set.
func checkACLFile(cfg *config.Config) error {
	o := options.Accounts(cfg)
	if o.File == "" {
		return nil
	}
	if _, err := accounts.NewStore(command.ACLTable(), o).Load(); err != nil {
		return fmt.Errorf("aclfile: %w", err)
	}
	return nil
}

// port returns the actual TCP port, which differs from the configured one if that is 0.
func (s *Server) port() int {
	if len(s.listeners) > 0 {
		if a, ok := s.listeners[0].Addr().(*net.TCPAddr); ok {
			return a.Port
		}
	}
	return s.cfg.Port()
}

// settings implements the settings for commands.
type settings struct{ *Server }

// MaxBulk returns the max length in bytes of a string that a client may send or a command may create.
func (s settings) MaxBulk() int64 { return s.sessions.Limits.Bulk.Load() }

// Databases returns redis-databases.
func (s settings) Databases() int64 { return s.cfg.Databases() }

// Get returns the value of a setting as text, and whether the setting exists.
func (s settings) Get(name string) (string, bool) { return s.cfg.Get(name) }

// Match returns the settings with matching names, sorted by name.
func (s settings) Match(match func(name string) bool) []command.Setting {
	var all []command.Setting
	for _, p := range s.cfg.Match(match) {
		all = append(all, command.Setting(p))
	}
	return all
}

// Set changes settings at the request of a session: all of them, or none if it returns an error.
func (s settings) Set(sess *command.Session, changes []command.Setting) error {
	var pairs []string
	for _, c := range changes {
		pairs = append(pairs, c.Name, c.Value)
	}
	err := s.cfg.SetFor(sess.Local, pairs...)
	s.auth.Refresh() // repl-namespace-enabled may have moved the namespaces
	if err != nil {
		return engine.NewError("ERR", err.Error())
	}
	return nil
}

// BecomeMaster implements REPLICAOF NO ONE.
func (s settings) BecomeMaster() error {
	if s.cluster != nil {
		return errReplicaCluster
	}
	return s.becomeMaster()
}

// becomeMaster makes the server stop following its master, if any, and accept writes.
func (s *Server) becomeMaster() error {
	if s.failingOver() {
		return errFailingOver
	}
	if _, _, replica := s.cfg.Master(); !replica {
		return nil
	}
	if err := s.cfg.SetMaster("no one"); err != nil {
		return err
	}
	s.replica.Unfollow(s.beginHistory)
	s.sweep.Refresh()
	s.applyRole()
	s.log.Info("the server takes writes: REPLICAOF NO ONE")
	return nil
}

// Rewrite writes the settings to the configuration file.
func (s settings) Rewrite() error {
	if err := s.cfg.Rewrite(); err != nil {
		return engine.NewError("ERR", err.Error())
	}
	return nil
}
