package maintenance

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
)

// Compact starts a compaction of a namespace, "" = of the whole database.
func (w *Work) Compact(namespace string) error {
	if err := w.DB.Usable(); err != nil {
		return err
	}
	if w.compacting.Swap(true) {
		return errCompacting
	}
	err := w.spawn(func() {
		defer w.compacting.Store(false)
		start := time.Now()
		switch err := w.DB.CompactNamespace(namespace); {
		case err == nil:
			w.Log.Info("compaction done", zap.String("namespace", namespace), zap.Duration("took", time.Since(start)))
		case w.closing.Load():
			w.Log.Info("compaction cut short, the server closes", zap.String("namespace", namespace))
		case errors.Is(err, engine.ErrLoading):
			w.Log.Info("compaction cut short, the database is replaced", zap.String("namespace", namespace))
		default:
			w.Log.Error("compaction failed", zap.String("namespace", namespace), zap.Error(err))
		}
	})
	if err != nil {
		w.compacting.Store(false)
	}
	return err
}

func (w *Work) schedules(now time.Time) {
	settings := w.Settings()
	if w.firing.scan.Due(settings.ScanCron, now) {
		for _, ns := range w.DB.Namespaces() {
			if err := w.DB.ScanKeys(ns); err != nil {
				w.Log.Warn("scheduled count of keys not started", zap.String("namespace", ns), zap.Error(err))
			}
		}
	}
	if w.firing.save.Due(settings.SaveCron, now) {
		if err := w.BackgroundSave(); err != nil {
			w.Log.Warn("scheduled backup not started", zap.Error(err))
		}
	}
	if !settings.Checker.Cron.IsEnabled() && w.firing.compact.Due(settings.CompactCron, now) {
		if err := w.Compact(""); err != nil {
			w.Log.Warn("scheduled compaction not started", zap.Error(err))
		}
	}
}

// checker runs the compaction checker. It has its own goroutine, because compactions take long.
func (w *Work) checker() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w.wg.Go(func() {
		<-w.stop
		cancel()
	})
	c := compaction.Checker{
		Now:          time.Now,
		Settings:     func() compaction.Settings { return w.Settings().Checker },
		Properties:   w.fileProperties,
		CompactRange: w.DB.CompactRange,
		Picked: func(id cf.ID, r compaction.Range) {
			w.Log.Info("compacting a file with many deleted keys", zap.Stringer("family", id), zap.String("file", r.File),
				zap.Float64("deleted", r.Ratio), zap.Bool("forced", r.Forced))
		},
	}
	t := time.NewTicker(time.Second)
	defer t.Stop()
	nextReclaim := time.Now().Add(reclaimEvery)
	for {
		select {
		case <-w.stop:
			return
		case <-t.C:
		}
		if now := time.Now(); now.After(nextReclaim) {
			w.reclaim(now)
			nextReclaim = time.Now().Add(reclaimEvery)
		}
		if err := c.Tick(ctx); err != nil && !w.cutShort(err) {
			w.Log.Error("compaction checker", zap.Error(err))
		}
	}
}

// fileProperties returns the properties of a family's files for the checker.
func (w *Work) fileProperties(id cf.ID) ([]compaction.FileProperties, error) {
	files, err := w.DB.FileProperties(id)
	if err != nil {
		return nil, err
	}
	have := files[:0]
	for _, f := range files {
		if f.Created.IsZero() {
			info, err := os.Stat(filepath.Join(w.DB.Dir(), filepath.Base(f.Name)))
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

// reclaim compacts files with a large share of expired data.
func (w *Work) reclaim(now time.Time) {
	percent := w.Settings().ExpiredPercent
	if percent == 0 {
		return
	}
	n, err := w.DB.CompactExpired(percent, w.DB.CompactionClock())
	switch {
	case err != nil && !w.cutShort(err):
		w.Log.Error("compacting files with expired data", zap.Error(err))
	case n > 0:
		w.Log.Info("files with expired data compacted", zap.Int("files", n), zap.Duration("took", time.Since(now)))
	}
}
