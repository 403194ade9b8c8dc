package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/launch"
)

// startRedis starts a redis-server that never disconnects a replica.
func (b *bench) startRedis(dir, name string) (*launch.Server, error) {
	return launch.Start(func(port int, dir string) *exec.Cmd {
		return exec.Command(b.redis, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--save", "",
			"--repl-diskless-sync-delay", "0", "--repl-backlog-size", "256mb", "--client-output-buffer-limit", "replica 0 0 0",
			"--enable-debug-command", "local")
	}, filepath.Join(dir, name))
}

// follow makes a server the replica of another one, and waits until the link is up.
func (b *bench) follow(replica, master *launch.Server) error {
	host, port, _ := strings.Cut(master.Addr, ":")
	if _, err := replica.Do("REPLICAOF", host, port); err != nil {
		return err
	}
	return b.linked(replica)
}

// stream measures how fast a basalt applies the stream of a redis-server. Each has its own core.
func (b *bench) stream(dir string) error {
	master, err := b.startRedis(dir, "master")
	if err != nil {
		return err
	}
	defer master.Kill()
	replica, err := b.start(dir, "replica")
	if err != nil {
		return err
	}
	defer replica.Kill()
	if err := b.follow(replica, master); err != nil {
		return err
	}
	s, err := b.replicate(master, replica, func() (int64, error) { return position(replica, "slave_repl_offset") })
	if err != nil {
		return err
	}
	part := float64(s.applied) / float64(s.written)
	fmt.Printf("%-50s %8.2f  %.0f and %.0f writes a second; the rest took %v\n",
		"stream: applied / written by a redis-server", part, part*s.rate, s.rate, s.rest)
	return nil
}

// smallValue is the size in bytes of a value in the measurement rdb.
const smallValue = 32

// rdb measures the time for transferring small keys of a redis-server to another redis-server and to a basalt.
func (b *bench) rdb(dir string) error {
	master, err := b.startRedis(dir, "master")
	if err != nil {
		return err
	}
	defer master.Kill()
	if _, err := master.Do("DEBUG", "POPULATE", strconv.Itoa(b.rdbKeys), "key", strconv.Itoa(smallValue)); err != nil {
		return err
	}
	var took [2]time.Duration
	for i, start := range []func(dir, name string) (*launch.Server, error){
		b.startRedis,
		func(dir, name string) (*launch.Server, error) { return b.start(dir, name) },
	} {
		replica, err := start(dir, "replica"+strconv.Itoa(i))
		if err != nil {
			return err
		}
		began := time.Now()
		err = b.follow(replica, master)
		took[i] = time.Since(began)
		replica.Kill()
		if err != nil {
			return err
		}
	}
	b.report("rdb: time of a redis-server as the replica / time", took[0].Seconds()/took[1].Seconds(), 0.3, false,
		fmt.Sprintf("%d keys in %.1f s; redis-server %.1f s", b.rdbKeys, took[1].Seconds(), took[0].Seconds()))
	return nil
}
