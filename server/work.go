package server

import (
	"time"

	"github.com/basaltdb/basalt/compaction"
	"github.com/basaltdb/basalt/server/maintenance"
	"github.com/basaltdb/basalt/server/metrics"
)

// newWork returns the background work, including the periodic tasks of the server itself.
func (s *Server) newWork() *maintenance.Work {
	w := maintenance.New(maintenance.Options{
		DB:          s.db,
		Log:         s.log,
		Settings:    s.workSettings,
		DiskSize:    func() uint64 { return s.diskSize() },
		SetFull:     func(full bool) (changed bool) { return s.sessions.Limits.Full.Swap(full) != full },
		HeapPlanned: s.plan.GoGarbage(),
		Shutdown:    s.Shutdown,
	})
	w.Every(metrics.SampleInterval, s.sample)
	w.Every(maintenance.Tick, s.sessions.Tick)
	return w
}

func (s *Server) workSettings() maintenance.Settings {
	cron := func(name string) compaction.Cron {
		c, _ := compaction.ParseCron(s.cfg.Text(name)) // the configuration accepts only valid schedules
		return c
	}
	return maintenance.Settings{
		BackupDir:   s.cfg.Text("backup-dir"),
		KeepBackups: s.cfg.Int("max-backup-to-keep") > 0,
		KeepFor:     time.Duration(s.cfg.Int("max-backup-keep-hours")) * time.Hour,
		SaveCron:    cron("bgsave-cron"),
		CompactCron: cron("compact-cron"),
		ScanCron:    cron("dbsize-scan-cron"),
		Checker: compaction.Settings{
			Cron:            cron("compaction-checker-cron"),
			ForceAge:        time.Duration(s.cfg.Int("force-compact-file-age")) * time.Second,
			ForceMinDeleted: int(s.cfg.Int("force-compact-file-min-deleted-percentage")),
		},
		ExpiredPercent: int(s.cfg.Int("compact-expired-percentage")),
		MaxSize:        uint64(s.cfg.Int("max-db-size")) << 30,
	}
}

// sample samples the counters whose rates INFO shows.
func (s *Server) sample(now time.Time) {
	x := metrics.Sample{At: now}
	x.Counts[metrics.RateCommands] = s.sessions.Stats.Commands.Load()
	x.Counts[metrics.RateNetIn], x.Counts[metrics.RateNetOut] = s.sessions.Stats.NetIn.Load(),
		s.sessions.Stats.NetOut.Load()
	x.Counts[metrics.RateReplIn], x.Counts[metrics.RateReplOut] = s.replica.Received(), s.master.Sent()
	for _, r := range rated {
		x.Counts[r.rate] = s.rateTicker(r.ticker)
	}
	s.sessions.Stats.Samples.Add(x)
}
