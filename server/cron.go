package server

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/compaction"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/metrics"
)

const (
	tick       = metrics.SampleInterval
	purgeEvery = 10 * time.Second
	cronsEvery = 20 * time.Second
	sizeEvery  = 5 * time.Second
	trimEvery  = 20 * time.Second
	// reclaimEvery is the rest between two looks for files with expired data, which go over the properties of all.
	reclaimEvery = 30 * time.Second
)

// cron does what is due at fixed times: samples for the rates in INFO and a look at the heap every tick, the size of the
// database, old backups, memory that malloc holds, and the schedules of bgsave-cron, compact-cron and
// dbsize-scan-cron.
func (s *Server) cron() {
	t := time.NewTicker(tick)
	defer t.Stop()
	var bgsave, compact, scan compaction.Firing
	begin := time.Now()
	nextPurge, nextCrons, nextSize, nextTrim := begin.Add(purgeEvery), begin.Add(cronsEvery), begin.Add(sizeEvery), begin.Add(trimEvery)
	s.sample(begin)
	var heap heapReturn
	pace := newGCPace(s.plan.GoGarbage())
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
		}
		now := time.Now()
		s.sample(now)
		s.forgetPause()
		s.expireTracked(now)
		heap.look()
		pace.look()
		if now.After(nextSize) {
			nextSize = now.Add(sizeEvery)
			s.checkSize()
		}
		if now.After(nextTrim) {
			nextTrim = now.Add(trimEvery)
			s.wg.Go(func() { engine.TrimMemory() }) // it may take longer than a tick
		}
		if now.After(nextPurge) {
			nextPurge = now.Add(purgeEvery)
			s.purgeBackup(now)
		}
		if now.After(nextCrons) {
			nextCrons = now.Add(cronsEvery)
			s.schedules(now, &bgsave, &compact, &scan)
		}
	}
}

func (s *Server) sample(now time.Time) {
	x := metrics.Sample{At: now}
	x.Counts[metrics.RateCommands] = s.stats.Commands.Load()
	x.Counts[metrics.RateNetIn], x.Counts[metrics.RateNetOut] = s.stats.NetIn.Load(), s.stats.NetOut.Load()
	for _, r := range rated {
		x.Counts[r.rate] = s.rateTicker(r.id)
	}
	s.stats.Samples.Add(x)
}

// schedules starts what bgsave-cron, compact-cron and dbsize-scan-cron say. compact-cron is ignored while the compaction
// checker has a schedule.
func (s *Server) schedules(now time.Time, bgsave, compact, scan *compaction.Firing) {
	if scan.Due(s.cronSetting("dbsize-scan-cron"), now) {
		for _, ns := range s.db.Namespaces() {
			if err := s.db.ScanKeys(ns); err != nil {
				s.log.Warn("scheduled count of keys not started", zap.String("namespace", ns), zap.Error(err))
			}
		}
	}
	if bgsave.Due(s.cronSetting("bgsave-cron"), now) {
		if err := s.BackgroundSave(); err != nil {
			s.log.Warn("scheduled backup not started", zap.Error(err))
		}
	}
	if !s.cronSetting("compaction-checker-cron").IsEnabled() && compact.Due(s.cronSetting("compact-cron"), now) {
		if err := s.Compact(""); err != nil {
			s.log.Warn("scheduled compaction not started", zap.Error(err))
		}
	}
}

// checker drives the compaction checker. It has a goroutine of its own because compactions take long.
func (s *Server) checker() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.wg.Go(func() {
		<-s.stop
		cancel()
	})
	c := compaction.Checker{
		Now: time.Now,
		Settings: func() compaction.Settings {
			return compaction.Settings{
				Cron:            s.cronSetting("compaction-checker-cron"),
				ForceAge:        time.Duration(s.cfg.Int("force-compact-file-age")) * time.Second,
				ForceMinDeleted: int(s.cfg.Int("force-compact-file-min-deleted-percentage")),
			}
		},
		Properties:   s.fileProperties,
		CompactRange: s.db.CompactRange,
		Picked: func(id cf.ID, r compaction.Range) {
			s.log.Info("compacting a file with many deleted keys", zap.Stringer("family", id), zap.String("file", r.File), zap.Float64("deleted", r.Ratio), zap.Bool("forced", r.Forced))
		},
	}
	t := time.NewTicker(time.Second)
	defer t.Stop()
	nextReclaim := time.Now().Add(reclaimEvery)
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
		}
		if now := time.Now(); now.After(nextReclaim) {
			s.reclaim(now)
			nextReclaim = time.Now().Add(reclaimEvery)
		}
		if err := c.Tick(ctx); err != nil && !s.closing.Load() {
			s.log.Error("compaction checker", zap.Error(err))
		}
	}
}

// fileProperties returns what the checker wants to know of the files of a family.
func (s *Server) fileProperties(id cf.ID) ([]compaction.FileProperties, error) {
	files, err := s.db.FileProperties(id)
	if err != nil {
		return nil, err
	}
	have := files[:0]
	for _, f := range files {
		if f.Created.IsZero() {
			info, err := os.Stat(filepath.Join(s.db.Dir(), filepath.Base(f.Name)))
			if errors.Is(err, fs.ErrNotExist) {
				continue // compacted away meanwhile
			}
			if err != nil {
				return nil, err
			}
			f.Created = info.ModTime()
		}
		have = append(have, f)
	}
	return have, nil
}

// reclaim compacts files in which much has expired.
func (s *Server) reclaim(now time.Time) {
	percent := int(s.cfg.Int("compact-expired-percentage"))
	if percent == 0 {
		return
	}
	n, err := s.db.CompactExpired(percent, now.UnixMilli())
	switch {
	case err != nil && !s.closing.Load():
		s.log.Error("compacting files with expired data", zap.Error(err))
	case n > 0:
		s.log.Info("files with expired data compacted", zap.Int("files", n), zap.Duration("took", time.Since(now)))
	}
}
