package server

import (
	"net"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/config"
)

// Check finds what is wrong in the settings by what the server knows and the configuration does not: which commands
// there are. Its error is one line that names the file, the line and the key.
func Check(cfg *config.Config) error {
	if _, err := commandTable(cfg); err != nil {
		return err
	}
	if _, err := declaredUsers(cfg, command.ACLTable()); err != nil {
		return err
	}
	return checkTLS(cfg)
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

// follow makes the server and the engine follow changes of the settings at run time.
func (s *Server) follow() {
	s.refresh()
	if most := mostClients(); int64(s.cfg.MaxClients()) > most {
		s.log.Warn("the limit of open files allows fewer clients than maxclients", zap.Int64("clients", most))
	}
	s.cfg.OnChange("maxclients", func(_, _ string) error { return checkClients(int64(s.cfg.MaxClients())) })
	for _, name := range []string{"requirepass", "maxclients", "timeout", "proto-max-bulk-len", "client-output-buffer-limit", "client-query-buffer-limit", "redis-cursor-compatible", "slave-read-only",
		"lua-strict-key-accessing"} {
		s.cfg.OnChange(name, func(_, _ string) error {
			s.refresh()
			return nil
		})
	}
	s.followDerived()
	s.cfg.OnChange("acllog-max-len", func(_, _ string) error {
		s.auth.ACL().Log().SetMax(int(s.cfg.Int("acllog-max-len")))
		return nil
	})
	s.followEvents(s.cfg.Text("notify-keyspace-events"))
	s.cfg.OnChange("notify-keyspace-events", func(_, text string) error {
		s.followEvents(text)
		return nil
	})
	s.cfg.OnChange("max-db-size", func(_, _ string) error {
		s.work.CheckSize()
		return nil
	})
	s.cfg.OnChange("timeout", func(_, _ string) error {
		s.wakeIdle()
		return nil
	})
	s.followReplication()
	s.followMaster()
	s.followTLS()
	s.followDiagnostics()
	s.watchStorage()
}

// refresh takes over what the server itself uses of the settings.
func (s *Server) refresh() {
	s.limits.bulk.Store(int64(s.cfg.ProtoMaxBulkLen()))
	s.limits.clients.Store(min(int64(s.cfg.MaxClients()), mostClients()))
	s.limits.timeout.Store(int64(s.cfg.Timeout()))
	s.limits.out.Store(int64(s.cfg.OutputLimit()))
	s.limits.outputs.Store(&outputLimits{s.cfg.OutputLimits(config.ClassNormal), s.cfg.OutputLimits(config.ClassPubSub)})
	s.limits.query.Store(s.cfg.Int("client-query-buffer-limit"))
	_, _, replica := s.cfg.Master()
	s.limits.readOnly.Store(replica && s.cfg.Bool("slave-read-only"))
	s.limits.strictKeys.Store(s.cfg.Bool("lua-strict-key-accessing"))
	command.SetTextCursors(!s.cfg.Bool("redis-cursor-compatible"))
	s.auth.Refresh()
}

// followDerived bounds derived state by the setting. Without one the bound is that with which the database was opened.
func (s *Server) followDerived() {
	unset := s.db.Derived().Limit()
	apply := func(_, _ string) error {
		limit := unset
		if n := s.cfg.Int("derived-state-size"); n != 0 {
			limit = max(n, 0) * mib
		}
		s.db.Derived().SetLimit(limit)
		return nil
	}
	apply("", "")
	s.cfg.OnChange("derived-state-size", apply)
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
func (s settings) MaxBulk() int64 { return s.limits.bulk.Load() }

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
	if s.failingOver() {
		return errFailingOver
	}
	if _, _, replica := s.cfg.Master(); !replica {
		return nil
	}
	if err := s.cfg.SetMaster("no one"); err != nil {
		return err
	}
	s.replica.Unfollow()
	s.sweep.Refresh()
	err := s.beginHistory()
	s.refresh()
	s.master.Set(s.masterSettings())
	s.log.Info("the server takes writes: REPLICAOF NO ONE")
	return err
}

// Rewrite writes the settings to the configuration file.
func (s settings) Rewrite() error {
	if err := s.cfg.Rewrite(); err != nil {
		return engine.NewError("ERR", err.Error())
	}
	return nil
}
