// Basalt is a storage server for Redis clients that keeps its data in RocksDB, in the layout of Apache Kvrocks.
//
//	basalt -c FILE [--key value ...]
//	basalt SUB-COMMAND ...
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine"
	_ "github.com/basaltdb/basalt/engine/rocks/malloc" // bounds what the process keeps of freed memory
	"github.com/basaltdb/basalt/internal/cli"
	"github.com/basaltdb/basalt/internal/procs"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/config/setting"
	"github.com/basaltdb/basalt/server/logging"
	"github.com/basaltdb/basalt/server/options"
)

// version is set by the linker.
var version = "unknown"

func main() {
	runtime.MemProfileRate = 0 // until KPROFILE MEMORY ENABLE
	if cli.Is(os.Args[1:]) {
		os.Exit(subCommand(os.Args[1:]))
	}
	stdin := &notedReader{Reader: os.Stdin}
	cfg, err := config.Load(os.Args[1:], stdin)
	switch {
	case errors.Is(err, config.ErrVersion):
		fmt.Println("basalt", version)
		return
	case errors.Is(err, config.ErrHelp):
		fmt.Printf("%s\nusage: basalt SUB-COMMAND ...\n%s", config.Usage, cli.List())
		return
	case err == nil:
		if !stdin.used { // the configuration cannot be read from there again
			keepSysmonAwake()
		}
		err = run(cfg)
	}
	if err != nil {
		// One line, whatever the error's text looks like.
		fmt.Fprintln(os.Stderr, "basalt:", strings.ReplaceAll(err.Error(), "\n", " "))
		os.Exit(1)
	}
}

// subCommand runs a sub-command and returns the exit code. The first signal asks it to end, the second ends it.
func subCommand(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return cli.Run(ctx, args, cli.NewEnv(version))
}

// run serves until a signal or SHUTDOWN. Everything that can be found wrong is found before anything is changed.
func run(cfg *config.Config) (err error) {
	if err := server.Check(cfg); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGPIPE) // a log on stdout whose reader has ended would end the server
	// SIGHUP, which ends a process that does not expect it, may come while a long log is recovered.
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	undo, err := cfg.PrepareDir()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			undo()
		}
	}()
	// The listeners come first: a port in use is found before the database is touched.
	listeners, err := server.Listen(cfg)
	if err != nil {
		return err
	}
	defer listeners.Close()
	targets, err := logging.ParseTargets(cfg.Text("log-dir"))
	if err != nil {
		return fmt.Errorf("log-dir: %w", err)
	}
	log, err := logging.Open(logging.Options{
		Targets: targets, Level: cfg.Text("log-level"), RetentionDays: int(cfg.Int("log-retention-days")),
	})
	if err != nil {
		return err
	}
	defer log.Close()
	cfg.OnChange("log-level", func(_, level string) error { return log.SetLevel(level) })
	cfg.OnChange("log-retention-days", func(_, _ string) error {
		log.SetRetentionDays(int(cfg.Int("log-retention-days")))
		return nil
	})
	for _, w := range cfg.Warnings() {
		log.Warn(w)
	}
	for _, name := range setting.Inert() {
		cfg.OnChange(name, func(_, _ string) error { // the value may be a password
			log.Warn("a setting without effect was changed", zap.String("key", name))
			return nil
		})
	}
	mem := cfg.MemoryPlan()
	logChoices(log.Logger, cfg, mem)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(mem.GoLimit())
	}
	db, err := engine.Open(options.Engine(cfg, mem, log.Logger))
	switch {
	case errors.Is(err, engine.ErrSlots):
		return fmt.Errorf("cluster-enabled: %w", err)
	case err != nil:
		return fmt.Errorf("dir: %w", err)
	}
	cfg.Reset("force-recovery")
	if names := db.UnknownFamilies(); len(names) > 0 {
		log.Info("column families of a newer version are preserved", zap.Strings("families", names))
	}
	s := server.New(cfg, db, log.Logger)
	s.SetBuild(version)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	if err := s.Serve(listeners); err != nil {
		s.Close() // it may have begun to use the database
		db.Close()
		return err
	}
	removePid := writePid(cfg, log.Logger)
	done := make(chan struct{})
	defer close(done)
	adapt := func() bool { return cfg.Bool("adaptive-threads") && s.Sessions().OnlyLocalClients() }
	go procs.Run(done, adapt, db.Syncs())
	notifySystemd("READY=1", log.Logger)
	log.Info("ready", zap.String("version", version), zap.Strings("addresses", s.Addrs()), zap.String("dir", cfg.Dir()))
	for running := true; running; {
		select {
		case <-reload:
			log.Reopen()
			s.ReloadTLS() // which logs what came of it
		case sig := <-stop:
			log.Info("stopping", zap.String("signal", sig.String()))
			running = false
		case <-s.ShutdownRequested():
			log.Info("stopping", zap.String("reason", "SHUTDOWN"))
			running = false
		}
	}
	notifySystemd("STOPPING=1", log.Logger)
	s.Close()
	err = db.Close()
	removePid() // whoever waits for that may start the next server
	if err != nil {
		return err
	}
	if n := engine.LiveObjects(); n != 0 {
		log.Error("native objects were left open", zap.Int64("objects", n))
	}
	log.Info("stopped")
	return nil
}

// notifySystemd tells the service manager how far the process is, if one has started it (sd_notify(3), Type=notify).
func notifySystemd(state string, log *zap.Logger) {
	address := os.Getenv("NOTIFY_SOCKET")
	if address == "" {
		return
	}
	c, err := net.Dial("unixgram", address) // Go takes '@' for an abstract address, as systemd does
	if err == nil {
		_, err = c.Write([]byte(state))
		c.Close()
	}
	if err != nil {
		log.Warn("systemd was not told", zap.String("state", state), zap.Error(err))
	}
}

// writePid writes the pid file and returns what removes it. A pid file that cannot be written is no reason not
// to serve.
func writePid(cfg *config.Config, log *zap.Logger) func() {
	path := cfg.Text("pidfile")
	if path == "" {
		return func() {}
	}
	if err := os.WriteFile(path, fmt.Appendln(nil, os.Getpid()), 0o644); err != nil {
		log.Warn("the pid file cannot be written", zap.Error(err))
		return func() {}
	}
	return func() { os.Remove(path) }
}
