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
	if most := mostClients(); int64(s.cfg.MaxClients()) > most {
		s.log.Warn("the limit of open files allows fewer clients than maxclients", zap.Int64("clients", most))
	}
	for _, f := range s.appliers() {
		if !f.changesOnly {
			f.apply()
		}
		for _, name := range f.names {
			s.cfg.OnChange(name, func(_, _ string) error { return f.apply() })
		}
	}
	s.followReplication()
	s.followMaster()
	s.watchStorage()
}

// An applier takes over the values of settings: at the start, and when one of them has changed.
type applier struct {
	names []string
	// apply takes the values over. Its error refuses a change.
	apply func() error
	// changesOnly says that there is nothing to do at the start, or that Serve does it.
	changesOnly bool
}

// appliers are all who follow settings, but for replication and the engine, in the order in which they hear of a
// change.
func (s *Server) appliers() []applier {
	always := func(f func()) func() error {
		return func() error {
			f()
			return nil
		}
	}
	unset := s.db.Derived().Limit() // that with which the database was opened
	return []applier{
		{names: []string{"maxclients"}, changesOnly: true,
			apply: func() error { return checkClients(int64(s.cfg.MaxClients())) }},
		{names: []string{"requirepass", "maxclients", "timeout", "proto-max-bulk-len", "client-output-buffer-limit",
			"client-query-buffer-limit", "redis-cursor-compatible", "slave-read-only", "lua-strict-key-accessing"},
			apply: always(s.refresh)},
		{names: []string{"derived-state-size"}, apply: always(func() {
			limit := unset
			if n := s.cfg.Int("derived-state-size"); n != 0 {
				limit = max(n, 0) * mib
			}
			s.db.Derived().SetLimit(limit)
		})},
		{names: []string{"acllog-max-len"},
			apply: always(func() { s.auth.ACL().Log().SetMax(int(s.cfg.Int("acllog-max-len"))) })},
		{names: []string{"notify-keyspace-events"},
			apply: always(func() { s.followEvents(s.cfg.Text("notify-keyspace-events")) })},
		{names: []string{"max-db-size"}, changesOnly: true, apply: always(s.work.CheckSize)},
		{names: []string{"timeout"}, changesOnly: true, apply: always(s.wakeIdle)},
		{names: tlsSettings, changesOnly: true, apply: s.ReloadTLS},
		{names: diagnosticSettings, apply: always(s.applyDiagnostics)},
	}
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
	err := s.beginHistory(false)
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
