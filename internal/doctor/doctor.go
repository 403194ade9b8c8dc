// Package doctor finds problems of a host, of settings, and of a running server, and describes them. It judges facts
// that are passed in: a root file system, numbers, the fields of INFO. So it can be tested without the host.
package doctor

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Level is the severity of a finding.
type Level int

// The levels.
const (
	Advice Level = iota // it works, but could be better
	Wrong               // data, security or service are at risk
)

func (l Level) String() string { return [...]string{"advice", "wrong"}[l] }

// MarshalText is the level in JSON.
func (l Level) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// Finding is one problem.
type Finding struct {
	Level Level  `json:"level"`
	About string `json:"about"` // machine, settings, server
	What  string `json:"what"`  // the problem and its consequence
	Do    string `json:"do"`    // the solution
}

// String returns the finding on one line.
func (f Finding) String() string { return f.What + "; " + f.Do }

// Facts describe the host and the settings. Zero fields are unknown, and not judged.
type Facts struct {
	Root fs.FS // of the host: proc and sys are read

	OpenFiles    uint64 // limit of open files of the process: ulimit -n
	Clients      uint64 // maxclients
	MaxOpenFiles int64  // rocksdb.max_open_files; negative = all
	Backlog      uint64 // tcp-backlog

	FileSystem      string // of the data: ext4, xfs, tmpfs, ...
	DiskFree, Disk  uint64 // bytes of that file system
	DataMode        fs.FileMode
	Dir, ConfigFile string
	ConfigMode      fs.FileMode
	Secrets         []string // secret settings given in the file

	Open      []string // addresses that other hosts can reach
	Admin     string   // admin-listen, if other hosts can reach it
	Console   bool     // admin-console
	Protected bool     // protected-mode
	Password  bool     // the default user has a password
	Sync      bool
	NoWAL     bool
	LogLevel  string
	Plan      string // problem of the memory plan; empty = none
	Warnings  []string

	Unverified     bool      // tls-replication without certificates of authorities
	Certificate    string    // file
	CertificateEnd time.Time // end of its validity
	Now            time.Time
}

// Machine checks the kernel's settings and the limits of the process.
func Machine(f *Facts) (found []Finding) {
	add := func(l Level, what, do string) { found = append(found, Finding{l, "machine", what, do}) }
	if f.Root != nil {
		kernel(f.Root, f.Backlog, add)
	}
	files := uint64(1000)
	if f.MaxOpenFiles > 0 {
		files = uint64(f.MaxOpenFiles)
	}
	if need := f.Clients + files + reserved; f.OpenFiles > 0 && f.OpenFiles < need {
		level := Advice
		if f.OpenFiles < need/4 {
			level = Wrong
		}
		add(level, fmt.Sprintf("the process may open %d files; %d clients, %d table files and some more need %d", f.OpenFiles,
			f.Clients, files, need),
			fmt.Sprintf("set LimitNOFILE=%d in the unit, or ulimit -n %d before the start", need, need))
	}
	switch f.FileSystem {
	case "tmpfs", "ramfs":
		add(Wrong, fmt.Sprintf("%s lies on a %s: all data is gone after a restart of the machine", f.Dir, f.FileSystem),
			"let dir name a directory on a disk")
	case "nfs", "nfs4", "cifs", "smb2", "fuse":
		add(Advice,
			fmt.Sprintf("%s lies on a file system of another machine (%s): its fsync and its locks may not hold what "+
				"RocksDB expects", f.Dir, f.FileSystem), "use a local disk")
	}
	if f.Disk > 0 {
		percent := 100 - f.DiskFree*100/f.Disk
		switch {
		case percent >= 95:
			add(Wrong, fmt.Sprintf("the disk of %s is %d %% full: compactions and backups need space", f.Dir, percent),
				"make room, or move dir")
		case percent >= 85:
			add(Advice, fmt.Sprintf("the disk of %s is %d %% full: compactions and backups need space", f.Dir, percent),
				"plan for more space")
		}
	}
	return found
}

// reserved is the number of files that a server needs besides clients and tables.
const reserved = 64

// kernel checks /proc and /sys.
func kernel(root fs.FS, backlog uint64, add func(l Level, what, do string)) {
	text := func(name string) string {
		b, _ := fs.ReadFile(root, name)
		return strings.TrimSpace(string(b))
	}
	number := func(name string) (uint64, bool) {
		n, err := strconv.ParseUint(text(name), 10, 64)
		return n, err == nil
	}
	if text("proc/sys/vm/overcommit_memory") == "2" {
		add(Wrong, "vm.overcommit_memory is 2: memory that is only reserved counts, and an allocation may fail while there "+
			"is memory", "sysctl vm.overcommit_memory=0")
	}
	pages := text("sys/kernel/mm/transparent_hugepage/enabled")
	switch {
	case strings.Contains(pages, "[always]"):
		add(Advice, "transparent huge pages are on for all memory: the process may take much more than it uses",
			"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled; basalt asks for them where they help")
	case strings.Contains(pages, "[never]"):
		add(Advice, "transparent huge pages are off: look-ups in big caches miss the TLB",
			"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled")
	}
	if n, ok := number("proc/sys/net/core/somaxconn"); ok && n < backlog {
		add(Advice, fmt.Sprintf("net.core.somaxconn is %d: of tcp-backlog %d only so many connections wait to be accepted", n,
			backlog), fmt.Sprintf("sysctl net.core.somaxconn=%d", backlog))
	}
	swaps := strings.Count(text("proc/swaps"), "\n")
	if n, ok := number("proc/sys/vm/swappiness"); ok && n > 10 && swaps > 0 {
		add(Advice, fmt.Sprintf("vm.swappiness is %d: the kernel may swap caches out that it could rather read again", n),
			"sysctl vm.swappiness=1")
	}
	if clock := text("sys/devices/system/clocksource/clocksource0/current_clocksource"); slices.Contains(
		[]string{"hpet", "acpi_pm", "xen", "jiffies", "refined-jiffies"}, clock) {
		add(Advice, fmt.Sprintf("the clock source is %s: reading the time, which every command does, enters the kernel",
			clock),
			"echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource, if the processor has a stable one")
	}
	if text("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") == "powersave" &&
		text("sys/devices/system/cpu/cpu0/cpufreq/scaling_driver") != "intel_pstate" {
		add(Advice, "the processor saves power: its frequency follows the load late", "cpupower frequency-set -g performance")
	}
}

// Settings checks the configuration.
func Settings(f *Facts) (found []Finding) {
	add := func(l Level, what, do string) { found = append(found, Finding{l, "settings", what, do}) }
	if len(f.Secrets) > 0 && f.ConfigMode&0o004 != 0 {
		add(Wrong, fmt.Sprintf("%s holds %s, and everybody on the machine may read it", f.ConfigFile,
			strings.Join(f.Secrets, ", ")), "chmod 640 "+f.ConfigFile)
	}
	if f.DataMode&0o007 == 0o007 {
		add(Wrong, "everybody on the machine may change the files in "+f.Dir, "chmod 750 "+f.Dir)
	}
	if len(f.Open) > 0 && !f.Password {
		addresses := strings.Join(f.Open, ", ")
		if f.Protected {
			add(Advice, "there is no password, so that protected mode refuses clients from other machines at "+addresses,
				"set requirepass, or bind 127.0.0.1")
		} else {
			add(Wrong, "everybody who reaches "+addresses+" may read and change all data", "set requirepass, or bind 127.0.0.1")
		}
	}
	if f.Admin != "" {
		what := "everybody who reaches admin-listen " + f.Admin + " may read the metrics, without a password and without TLS"
		if f.Console {
			what += "; who signs in to the console there sends a password in plain text"
		}
		add(Advice, what, "bind admin-listen to 127.0.0.1 and use a tunnel or a proxy with TLS, or to a private network")
	}
	if f.NoWAL {
		add(Wrong, "rocksdb.write_options.disable_wal is on: a crash loses what was written since the last flush",
			"turn it off, unless the data can be made again")
	} else if !f.Sync {
		add(Advice,
			"sync is off: when the machine loses power, writes of the last moments may be lost; a crash of the server "+
				"alone loses none", "turn rocksdb.write_options.sync on if that is too much, at a price: docs/tuning.md")
	}
	if f.Plan != "" {
		add(Wrong, "memory: "+f.Plan,
			"lower rocksdb.block_cache_size, rocksdb.write_buffer_size or memory-budget-mb, or leave "+
				"them out: then sizes are chosen that fit")
	}
	if f.LogLevel == "debug" {
		add(Advice, "log-level is debug: the log grows fast", "set log-level info")
	}
	if f.Unverified {
		add(Wrong,
			"tls-replication does not verify the master: whoever answers in its place is followed, and gets masterauth",
			"set tls-ca-cert-file or tls-ca-cert-dir")
	}
	if f.Certificate != "" && !f.CertificateEnd.IsZero() {
		switch left := f.CertificateEnd.Sub(f.Now); {
		case left <= 0:
			add(Wrong, fmt.Sprintf("the certificate in %s has expired on %s", f.Certificate,
				f.CertificateEnd.Format(time.DateOnly)),
				"renew it; SIGHUP lets the server read it again")
		case left < 30*24*time.Hour:
			add(Advice, fmt.Sprintf("the certificate in %s expires on %s", f.Certificate,
				f.CertificateEnd.Format(time.DateOnly)),
				"renew it; SIGHUP lets the server read it again")
		}
	}
	for _, w := range f.Warnings {
		add(Advice, w, "take them out, or see docs/kvrocks.md")
	}
	return found
}
