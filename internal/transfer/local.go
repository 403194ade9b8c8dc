package transfer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/options"
	"github.com/basaltdb/basalt/server/resp"
)

// local is a server in this process, with a data directory and a private Unix socket.
type local struct {
	Conn *resp.Conn

	srv  *server.Server
	db   *engine.DB
	tmp  string
	undo func() // removes the links to a directory that is only read; nil = none
}

// localConfig returns the settings for a data directory, from a configuration file if one is given.
func localConfig(dir, file string, more ...string) (*config.Config, error) {
	var args []string
	if file != "" {
		args = append(args, "-c", file)
	}
	return config.Load(append(append(args, "--dir", dir), more...), os.Stdin)
}

// alone are the settings of a server that only this process uses: it listens nowhere, follows no master, is no node of
// a cluster, and makes no backups by the clock.
var alone = []string{"--port", "0", "--tls-port", "0", "--requirepass", "", "--admin-listen", "", "--daemonize", "no",
	"--slaveof", "", "--cluster-enabled", "no", "--bgsave-cron", "", "--compact-cron", ""}

// openLocal serves a data directory. Without a log, writes are lost unless close is called.
func openLocal(ctx context.Context, dir, file string, log bool, more ...string) (*local, error) {
	l := &local{}
	var err error
	if l.tmp, err = os.MkdirTemp("", "basalt-"); err != nil {
		return nil, err
	}
	socket := filepath.Join(l.tmp, "socket")
	own, err := localConfig(dir, file, more...)
	if err == nil {
		more = append(append(more, "--unixsocket", socket, "--unixsocketperm", "700"), alone...)
		var cfg *config.Config
		if cfg, err = localConfig(dir, file, more...); err == nil {
			err = l.open(cfg, own.Bool("cluster-enabled"), log)
		}
	}
	if err == nil {
		l.Conn, err = Dial(ctx, Address{Network: "unix", Host: socket})
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// openExisting serves a data directory with an existing database.
func openExisting(ctx context.Context, dir, file string) (*local, error) {
	cfg, err := localConfig(dir, file)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(cfg.DBDir(), "CURRENT")); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, errNoDatabase)
	}
	if mayWrite(cfg.Dir()) && mayWrite(cfg.DBDir()) {
		return openLocal(ctx, dir, file, true)
	}
	// A server writes at its start: the directory is served through links.
	links, err := os.MkdirTemp("", "basalt-read-")
	if err != nil {
		return nil, err
	}
	var release func()
	undo := func() {
		if release != nil {
			release()
		}
		os.RemoveAll(links)
	}
	db := filepath.Join(links, "db")
	if err = os.Mkdir(db, 0o700); err == nil {
		release, err = engine.LinkDatabase(cfg.DBDir(), db)
	}
	if err != nil {
		undo()
		return nil, err
	}
	l, err := openLocal(ctx, links, file, true, "--rocksdb.disable_auto_compactions", "yes")
	if err != nil {
		undo()
		return nil, err
	}
	l.undo = undo
	return l, nil
}

// mayWrite reports whether this process may create files in a directory. Tests replace it: root may everywhere.
var mayWrite = func(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }

// open serves the directory of a configuration. slots: the keys carry slots, as those of a node of a cluster.
func (l *local) open(cfg *config.Config, slots, log bool) error {
	if err := server.Check(cfg); err != nil {
		return err
	}
	undo, err := cfg.PrepareDir()
	if err != nil {
		return err
	}
	listeners, err := server.Listen(cfg)
	if err != nil {
		undo()
		return err
	}
	o := options.Engine(cfg, cfg.MemoryPlan(), zap.NewNop())
	o.DisableWAL, o.Slots = o.DisableWAL || !log, slots
	if l.db, err = engine.Open(o); err != nil {
		listeners.Close()
		undo()
		return err
	}
	l.srv = server.New(cfg, l.db, zap.NewNop())
	return l.srv.Serve(listeners)
}

// close stops the server and syncs its data.
func (l *local) close() (err error) {
	if l.Conn != nil {
		l.Conn.Close()
	}
	if l.srv != nil {
		l.srv.Close()
	}
	if l.db != nil {
		for id := range cf.NumFamilies {
			err = errors.Join(err, l.db.FlushMemtable(id))
		}
		err = errors.Join(err, l.db.Close())
	}
	os.RemoveAll(l.tmp)
	if l.undo != nil {
		l.undo()
	}
	return err
}
