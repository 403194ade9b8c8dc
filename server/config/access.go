package config

import (
	"path/filepath"
	"strings"

	"github.com/basaltdb/basalt/server/config/setting"
)

// Indices in the table of the settings that have an accessor or a rule of their own.
var (
	aclFile                 = setting.Index("aclfile")
	backupDir               = setting.Index("backup-dir")
	bind                    = setting.Index("bind")
	checkerCron             = setting.Index("compaction-checker-cron")
	checkerRange            = setting.Index("compaction-checker-range")
	clientOutputBufferLimit = setting.Index("client-output-buffer-limit")
	clusterEnabled          = setting.Index("cluster-enabled")
	databases               = setting.Index("databases")
	dir                     = setting.Index("dir")
	logDir                  = setting.Index("log-dir")
	logLevel                = setting.Index("log-level")
	logRetentionDays        = setting.Index("log-retention-days")
	masterAuth              = setting.Index("masterauth")
	pidFile                 = setting.Index("pidfile")
	port                    = setting.Index("port")
	redisDatabases          = setting.Index("redis-databases")
	redisLogLevel           = setting.Index("loglevel")
	renameCommand           = setting.Index("rename-command")
	maxMemory               = setting.Index("maxmemory")
	maxMemoryPolicy         = setting.Index("maxmemory-policy")
	appendFsync             = setting.Index("appendfsync")
	writeSync               = setting.Index("rocksdb.write_options.sync")
	replNamespaceEnabled    = setting.Index("repl-namespace-enabled")
	requirePass             = setting.Index("requirepass")
	slaveOf                 = setting.Index("slaveof")
	unixSocket              = setting.Index("unixsocket")
)

// Bind returns the addresses to listen on, with a "-" in front of those that may be missing on this machine. Without
// addresses the server listens on the Unix socket only. Redis's names for all addresses, * and ::*, are 0.0.0.0 and ::.
func (c *Config) Bind() []string {
	hosts := strings.Fields(c.text(bind))
	for i, word := range hosts {
		host, optional := strings.CutPrefix(word, "-")
		switch host {
		case "*":
			host = "0.0.0.0"
		case "::*":
			host = "::"
		}
		if optional {
			host = "-" + host
		}
		hosts[i] = host
	}
	return hosts
}

// Port returns the TCP port; 0 = the system chooses a port.
func (c *Config) Port() int { return int(c.num(port)) }

// OutputLimits returns the limits of a class of clients.
func (c *Config) OutputLimits(class setting.Class) setting.BufferLimit {
	return c.state.Load().limits[class]
}

// RequirePass returns the administrator's password; empty = no password is required.
func (c *Config) RequirePass() string { return c.text(requirePass) }

// CertificateUser returns what in the certificate of a client names its user: CN, URI or off.
func (c *Config) CertificateUser() string { return c.Text("tls-auth-clients-user") }

// Dir returns the base directory.
func (c *Config) Dir() string { return c.text(dir) }

// DBDir returns the directory of the RocksDB database.
func (c *Config) DBDir() string { return filepath.Join(c.Dir(), "db") }

// Databases returns the number of databases for SELECT; 0 = only database 0 exists, and namespaces may be used.
func (c *Config) Databases() int64 { return c.num(redisDatabases) }

// Rename is a renamed command.
type Rename struct {
	Old string
	New string // empty = the command is disabled
}

// Renames returns the renamed commands in the order in which they were given.
func (c *Config) Renames() []Rename {
	var renames []Rename
	for _, line := range setting.Lines(c.text(renameCommand)) {
		words := strings.Fields(line)
		renames = append(renames, Rename{words[0], strings.Trim(words[1], `"'`)})
	}
	return renames
}

// RenameError places an error at the i-th of [Config.Renames]: where it was given.
func (c *Config) RenameError(i int, err error) error {
	e := c.renames[i]
	e.Err = err
	return &e
}

// Master returns the master to replicate from; ok is false when this is a master itself.
func (c *Config) Master() (host, port string, ok bool) {
	return c.state.Load().master()
}

func (st *state) master() (host, port string, ok bool) {
	words := strings.Fields(st.text(slaveOf))
	if len(words) != 2 || strings.EqualFold(words[0], "no") && strings.EqualFold(words[1], "one") {
		return "", "", false
	}
	return words[0], words[1], true
}
