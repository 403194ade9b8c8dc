package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/launch"
)

// sizes are the sizes that both products get.
type sizes struct {
	memory, cache, writeBuffer int64 // in bytes; memory is the limit of the cgroup
}

// product is a program to measure.
type product struct {
	name    string
	command launch.Command
}

const mib = 1 << 20

func basalt(path string, s sizes, extra []string) product {
	args := []string{
		"--rocksdb.block_cache_size", strconv.FormatInt(s.cache/mib, 10),
		"--rocksdb.write_buffer_size", strconv.FormatInt(s.writeBuffer/mib, 10),
		"--rocksdb.compression", "no",
	}
	return product{"basalt", launch.Basalt(path, append(args, extra...)...)}
}

// kvrocks is Kvrocks with the kvrocks.conf that it is shipped with, except for the sizes.
func kvrocks(path string, s sizes) product {
	return product{"kvrocks", func(port int, dir string) *exec.Cmd {
		conf := filepath.Join(dir, "kvrocks.conf")
		text := fmt.Sprintf(`bind 127.0.0.1
port %d
dir %s
pidfile %s/kvrocks.pid
log-dir stdout
workers 8
rocksdb.block_cache_size %d
rocksdb.write_buffer_size %d
rocksdb.compression no
rocksdb.max_background_compactions -1
rocksdb.max_background_flushes -1
rocksdb.level_compaction_dynamic_level_bytes yes
`, port, dir, dir, s.cache/mib, s.writeBuffer/mib)
		// If the file cannot be written, the server ends with a message.
		_ = os.WriteFile(conf, []byte(text), 0o644)
		return exec.Command(path, "-c", conf)
	}}
}

// server is a running product with its directory.
type server struct {
	product
	*launch.Server
	dir   string
	group *group // nil = no cgroups
}

// start starts a product with the data in dir.
func start(p product, dir string, g *groups) (*server, error) {
	s := &server{product: p, dir: dir}
	command := p.command
	if g != nil {
		var err error
		if s.group, err = g.make(p.name); err != nil {
			return nil, err
		}
		command = func(port int, dir string) *exec.Cmd { return s.group.wrap(p.command(port, dir)) }
	}
	var err error
	if s.Server, err = launch.Start(command, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", p.name, err), s.removeGroup())
	}
	return s, nil
}

func (s *server) removeGroup() error {
	if s.group == nil {
		return nil
	}
	return s.group.remove()
}

// stop ends the server. Its data stay.
func (s *server) stop() error {
	return errors.Join(s.Server.Stop(), s.removeGroup())
}

// kill kills the server; after a stop it does nothing.
func (s *server) kill() error {
	s.Server.Kill()
	return s.removeGroup()
}

// fate is the state of a server after an error.
type fate int

const (
	running fate = iota
	ended
	outOfMemory // killed because its group was full
)

func (s *server) fate() fate {
	select {
	case <-s.Done():
	case <-time.After(time.Second): // a socket closes before its process has ended
		return running
	}
	if s.group != nil && s.group.oomKills() > 0 {
		return outOfMemory
	}
	return ended
}

// usage is what a process has used since its start.
type usage struct {
	read, written int64 // bytes from and to the disk
	cpu           time.Duration
}

func (s *server) usage() (usage, error) {
	var u usage
	io, err := s.Fields("io")
	if err != nil {
		return u, err
	}
	u.read, u.written = io["read_bytes"], io["write_bytes"]-io["cancelled_write_bytes"]
	u.cpu, err = s.CPUTime()
	return u, err
}

// compaction is a running COMPACT.
type compaction struct {
	ended chan struct{} // closed when INFO reports the end
	err   error
	stop  chan struct{}
}

// compact starts COMPACT.
func (s *server) compact() (*compaction, error) {
	if _, err := s.Do("COMPACT"); err != nil {
		return nil, err
	}
	c := &compaction{ended: make(chan struct{}), stop: make(chan struct{})}
	go func() {
		defer close(c.ended)
		for {
			select {
			case <-c.stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
			if compacting, err := s.Info("rocksdb", "is_compacting"); err != nil || compacting != "yes" {
				c.err = err
				return
			}
		}
	}()
	return c, nil
}

// wait stops polling and returns the error of the compaction, if any.
func (c *compaction) wait() error {
	close(c.stop)
	<-c.ended
	return c.err
}
