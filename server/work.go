package server

import (
	"github.com/basaltdb/basalt/server/maintenance"
	"github.com/basaltdb/basalt/server/options"
)

// newWork returns the background work, including the periodic tasks of the server itself.
func (s *Server) newWork() *maintenance.Work {
	w := maintenance.New(maintenance.Options{
		DB:          s.db,
		Log:         s.log,
		Settings:    func() maintenance.Settings { return options.Maintenance(s.cfg) },
		DiskSize:    func() uint64 { return s.diskSize() },
		SetFull:     func(full bool) (changed bool) { return s.sessions.Limits.Full.Swap(full) != full },
		HeapPlanned: s.plan.GoGarbage(),
		Shutdown:    s.Shutdown,
	})
	w.Every(maintenance.Tick, s.sessions.Tick)
	return w
}
