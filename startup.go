package main

import (
	"fmt"
	"os"
	"runtime"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/cli"
	"github.com/basaltdb/basalt/internal/doctor"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/config/memplan"
)

// logChoices logs in four lines what this start has chosen, the fifth being "ready", and a warning for each thing that
// is wrong with the machine, or puts data, security or service at risk.
func logChoices(log *zap.Logger, cfg *config.Config, mem memplan.Plan) {
	rocks, _ := engine.RocksDB()
	log.Info(fmt.Sprintf("basalt %s: RocksDB %s, %s, process %d", version, rocks, runtime.Version(), os.Getpid()))
	log.Info("memory: " + mem.String())
	log.Info(fmt.Sprintf("threads: %d processors for Go of %d, %d background jobs of RocksDB with up to %d threads each",
		runtime.GOMAXPROCS(0), runtime.NumCPU(), cfg.Int("rocksdb.max_background_jobs"),
		cfg.Int("rocksdb.max_subcompactions")))
	f := cli.Facts(cfg)
	file := f.ConfigFile
	if file == "" {
		file = "none"
	}
	log.Info(fmt.Sprintf("files: configuration %s, data in %s (%.1f GiB free), at most %d open", file, cfg.DBDir(),
		float64(f.DiskFree)/(1<<30), f.OpenFiles))
	f.Warnings = nil // they are in the log already
	f.Plan = ""      // the memory's line says so
	for _, x := range doctor.Machine(f) {
		log.Warn(x.String())
	}
	for _, x := range doctor.Settings(f) {
		if x.Level == doctor.Wrong {
			log.Warn(x.String())
		}
	}
}
