package server

import (
	"go.uber.org/zap"

	"github.com/basaltdb/basalt/server/command"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/options"
)

// applier applies values of settings: at the start, and when one of them changes.
type applier struct {
	names []string
	// apply applies the values. An error refuses the change.
	apply func() error
	// changesOnly: apply is not called at the start, because nothing must be done then, or other code does it.
	changesOnly bool
}

// follow makes the server and the engine follow changes of settings at run time.
func (s *Server) follow() {
	if clients, tables := options.OpenFiles(s.cfg); s.cfg.Int("maxclients") > clients {
		s.log.Warn("the limit of open files allows fewer clients than maxclients", zap.Int64("clients", clients),
			zap.Int64("table files", tables))
	}
	for _, f := range s.appliers() {
		if !f.changesOnly {
			f.apply()
		}
		for _, name := range f.names {
			s.cfg.OnChange(name, func(_, _ string) error { return f.apply() })
		}
	}
}

// appliers returns the appliers of all settings, in the order in which they are called. A setting without an applier is
// read whenever it is needed.
func (s *Server) appliers() []applier {
	always := func(f func()) func() error {
		return func() error {
			f()
			return nil
		}
	}
	unset := s.db.Derived().Limit() // the limit with which the database was opened
	return append([]applier{
		{names: []string{"maxclients"}, changesOnly: true,
			apply: func() error { return options.CheckClients(s.cfg) }},
		{names: []string{"maxclients"},
			apply: always(func() {
				clients, _ := options.OpenFiles(s.cfg)
				s.maxClients.Store(min(s.cfg.Int("maxclients"), clients))
			})},
		{names: []string{"timeout", "proto-max-bulk-len", "client-output-buffer-limit", "client-query-buffer-limit",
			"lua-strict-key-accessing"},
			apply: always(s.applyLimits)},
		{names: []string{"redis-cursor-compatible"},
			apply: always(func() { command.SetTextCursors(!s.cfg.Bool("redis-cursor-compatible")) })},
		{names: []string{"requirepass"}, apply: always(s.auth.Refresh)},
		{names: options.MasterNames, apply: always(s.applyRole)},
		{names: options.ReplicaNames, changesOnly: true, apply: always(s.applyReplica)},
		{names: []string{"slave-read-only"}, changesOnly: true,
			apply: always(func() { s.db.LockReplica(s.cfg.Bool("slave-read-only")) })},
		{names: []string{"derived-state-size"}, apply: always(func() {
			limit := unset
			if n := s.cfg.Int("derived-state-size"); n != 0 {
				limit = max(n, 0) * options.MiB
			}
			s.db.Derived().SetLimit(limit)
		})},
		{names: []string{"acllog-max-len"},
			apply: always(func() { s.auth.ACL().Log().SetMax(int(s.cfg.Int("acllog-max-len"))) })},
		{names: []string{"notify-keyspace-events"}, apply: always(s.applyEvents)},
		{names: []string{"max-db-size"}, changesOnly: true, apply: always(s.work.CheckSize)},
		{names: []string{"timeout"}, changesOnly: true, apply: always(s.sessions.WakeIdle)},
		{names: options.TLSNames, changesOnly: true, apply: s.ReloadTLS},
		{names: options.DiagnosticNames, apply: always(s.applyDiagnostics)},
		{names: []string{"max-io-mb"}, changesOnly: true,
			apply: always(func() { s.db.SetRateLimit(options.WriteRate(s.cfg)) })},
		{names: []string{options.MaxBatchBytes}, changesOnly: true,
			apply: always(func() { s.db.SetMaxBatchBytes(options.MaxBatch(s.cfg, s.plan)) })},
		{names: []string{options.AsyncIO}, changesOnly: true,
			apply: always(func() { s.db.SetAsyncIO(s.cfg.Bool(options.AsyncIO)) })},
	}, s.optionAppliers()...)
}

// applyLimits applies the limits that every session checks.
func (s *Server) applyLimits() {
	l := &s.sessions.Limits
	l.Bulk.Store(s.cfg.Int("proto-max-bulk-len"))
	l.Timeout.Store(s.cfg.Int("timeout"))
	waiting, whole := options.MaxReply(s.cfg, s.plan)
	l.Out.Store(waiting)
	l.Whole.Store(whole)
	l.Outputs.Store(options.OutputLimits(s.cfg))
	l.Query.Store(s.cfg.Int("client-query-buffer-limit"))
	l.StrictKeys.Store(s.cfg.Bool("lua-strict-key-accessing"))
}

// applyRole applies what depends on whether the server is a replica.
func (s *Server) applyRole() {
	s.sessions.Limits.ReadOnly.Store(s.IsReplica() && s.cfg.Bool("slave-read-only"))
	s.master.Set(options.Master(s.cfg))
	s.auth.Refresh() // the namespaces may be the master's
}

// applyReplica applies the settings of following a master.
func (s *Server) applyReplica() {
	s.replica.Set(options.Replica(s.cfg, s.port()))
	s.refreshStale()
}

// applyEvents applies notify-keyspace-events, and starts or stops the sweep.
func (s *Server) applyEvents() {
	classes, _ := command.ParseEvents(s.cfg.Text("notify-keyspace-events"))
	if classes&(command.EventKeyspace|command.EventKeyevent) == 0 {
		classes = 0
	}
	s.sessions.SetEvents(classes)
	s.sweep.Want(classes&sweptEvents != 0, classes&fieldEvents != 0)
}

// applyDiagnostics applies the settings of the slow log, the latency monitor, profiling and tracking.
func (s *Server) applyDiagnostics() {
	s.sessions.SetDiagnostics(options.Diagnostics(s.cfg))
	s.sessions.Tracker.SetLimit(s.cfg.Int("tracking-table-max-keys"))
}

func (s *Server) optionAppliers() (list []applier) {
	for _, name := range config.RocksDBChanges() {
		list = append(list, applier{names: []string{name}, changesOnly: true, apply: func() error {
			c, ok := s.cfg.OptionChange(name)
			switch {
			case !ok:
				return nil
			case c.DB:
				return s.db.SetDBOption(c.Option, c.Value)
			default:
				return s.db.SetFamilyOption(c.Option, c.Value)
			}
		}})
	}
	return list
}
