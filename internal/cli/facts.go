package cli

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/basaltdb/basalt/internal/doctor"
	"github.com/basaltdb/basalt/server/config"
)

// Facts collects the facts that package doctor judges: about this host, and about a server with these settings on it.
func Facts(cfg *config.Config) *doctor.Facts {
	f := &doctor.Facts{
		Root: os.DirFS("/"), Now: time.Now(),
		Clients: uint64(cfg.Int("maxclients")), MaxOpenFiles: cfg.Int("rocksdb.max_open_files"),
		Backlog: uint64(cfg.Int("tcp-backlog")),
		Dir:     cfg.Dir(), ConfigFile: cfg.File(),
		Protected: cfg.Bool("protected-mode"), Password: cfg.RequirePass() != "" || len(cfg.Users()) > 0 ||
			cfg.Text("aclfile") != "", Sync: cfg.Bool("rocksdb.write_options.sync"),
		NoWAL:    cfg.Bool("rocksdb.write_options.disable_wal"),
		LogLevel: cfg.Text("log-level"), Certificate: cfg.Text("tls-cert-file"),
		Unverified: cfg.Bool("tls-replication") && cfg.Text("tls-ca-cert-file")+cfg.Text("tls-ca-cert-dir") == "",
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		f.OpenFiles = limit.Cur
	}
	at, err := os.Stat(f.Dir)
	if err == nil {
		f.DataMode = at.Mode().Perm()
	}
	var disk syscall.Statfs_t
	below := f.Dir
	if err != nil { // the directory will be created
		below = filepath.Dir(filepath.Clean(below))
	}
	if syscall.Statfs(below, &disk) == nil {
		f.FileSystem = fileSystems[int64(disk.Type)]
		f.Disk, f.DiskFree = disk.Blocks*uint64(disk.Bsize), disk.Bavail*uint64(disk.Bsize)
	}
	if info, err := os.Stat(f.ConfigFile); f.ConfigFile != "" && err == nil {
		f.ConfigMode = info.Mode().Perm()
		for _, name := range []string{"requirepass", "masterauth", "tls-key-file-pass"} {
			if _, ok := cfg.Get(name); ok && cfg.Text(name) != "" {
				f.Secrets = append(f.Secrets, name)
			}
		}
		if len(cfg.Namespaces()) > 0 {
			f.Secrets = append(f.Secrets, "tokens of namespaces")
		}
		if len(cfg.Users()) > 0 {
			f.Secrets = append(f.Secrets, "users")
		}
	}
	for _, host := range cfg.Bind() {
		if host = strings.TrimPrefix(host, "-"); !loopback(host) {
			f.Open = append(f.Open, host)
		}
	}
	admin := cfg.Text("admin-listen")
	if host, _, err := net.SplitHostPort(admin); err == nil && !loopback(host) {
		f.Admin, f.Console = admin, cfg.Bool("admin-console")
	}
	if plan := cfg.MemoryPlan(); plan.OverBudget() {
		f.Plan = plan.String()
	}
	f.Warnings = slices.Clone(cfg.Warnings())
	if f.ConfigFile == "" { // the error of the first one counts
		f.Warnings = f.Warnings[min(1, len(f.Warnings)):]
	}
	f.CertificateEnd = certificateEnd(f.Certificate)
	return f
}

// loopback reports whether only this host can reach a host of an address.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// fileSystems maps magic numbers of statfs(2) to names.
var fileSystems = map[int64]string{0x01021994: "tmpfs", 0x858458f6: "ramfs", 0x6969: "nfs", 0xff534d42: "cifs",
	0xfe534d42: "smb2", 0x65735546: "fuse"}

// certificateEnd returns the time at which the first certificate of a file expires, the zero time when the file cannot
// be read.
func certificateEnd(file string) time.Time {
	data, err := os.ReadFile(file)
	if file == "" || err != nil {
		return time.Time{}
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			if c, err := x509.ParseCertificate(block.Bytes); err == nil {
				return c.NotAfter
			}
		}
	}
	return time.Time{}
}
