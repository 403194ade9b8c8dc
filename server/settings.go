package server

import (
	"net"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/config"
)

// Check finds what is wrong in the settings by what the server knows and the configuration does not: which commands
// there are. Its error is one line that names the file, the line and the key. In a cluster it makes the settings those of
// the master or replica that the node was.
func Check(cfg *config.Config) error {
	if _, err := commandTable(cfg); err != nil {
		return err
	}
	if _, err := declaredUsers(cfg, command.ACLTable()); err != nil {
		return err
	}
	if err := checkTLS(cfg); err != nil {
		return err
	}
	return adoptRole(cfg)
}

// commandTable applies rename-command, one line after the other.
func commandTable(cfg *config.Config) (*command.Table, error) {
	renames := cfg.Renames()
	if len(renames) == 0 {
		return command.DefaultTable(), nil
	}
	t := command.DefaultTable().Clone()
	for i, r := range renames {
		if err := t.Rename(r.Old, r.New); err != nil {
			return nil, cfg.RenameError(i, err)
		}
	}
	return t, nil
}

// port returns the TCP port in use, which with port 0 is not the configured one.
func (s *Server) port() int {
	if len(s.listeners) > 0 {
		if a, ok := s.listeners[0].Addr().(*net.TCPAddr); ok {
			return a.Port
		}
	}
	return s.cfg.Port()
}

// settings are the settings as commands see them.
type settings struct{ *Server }

// MaxBulk returns the longest string that a client may send or a command make, in bytes.
func (s settings) MaxBulk() int64 { return s.sessions.Limits.Bulk.Load() }

// Databases is redis-databases.
func (s settings) Databases() int64 { return s.cfg.Databases() }

// Get returns the text of a setting.
func (s settings) Get(name string) (string, bool) { return s.cfg.Get(name) }

// Match returns the settings whose names match, sorted by name.
func (s settings) Match(match func(name string) bool) []command.Setting {
	var all []command.Setting
	for _, p := range s.cfg.Match(match) {
		all = append(all, command.Setting(p))
	}
	return all
}

// Set changes settings for a session, all or, with an error, none.
func (s settings) Set(sess *command.Session, changes []command.Setting) error {
	var pairs []string
	for _, c := range changes {
		pairs = append(pairs, c.Name, c.Value)
	}
	err := s.cfg.SetFor(sess.Local, pairs...)
	s.auth.Refresh() // repl-namespace-enabled has moved namespaces
	if err != nil {
		return engine.NewError("ERR", err.Error())
	}
	return nil
}

// BecomeMaster is REPLICAOF NO ONE.
func (s settings) BecomeMaster() error {
	if s.cluster != nil {
		return errReplicaCluster
	}
	return s.becomeMaster()
}

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
