package doctor

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/basaltdb/basalt/server/resp"
)

// root makes a machine of files.
func root(files ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		m[files[i]] = &fstest.MapFile{Data: []byte(files[i+1] + "\n")}
	}
	return m
}

// sound is a machine with settings of which nothing is to be said.
func sound() Facts {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	return Facts{
		Root: root("proc/sys/vm/overcommit_memory", "0", "sys/kernel/mm/transparent_hugepage/enabled",
			"always [madvise] never",
			"proc/sys/net/core/somaxconn", "4096", "proc/swaps", "Filename Type Size Used Priority",
			"proc/sys/vm/swappiness", "60", "sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc",
			"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance"),
		OpenFiles: 1 << 20, Clients: 10000, MaxOpenFiles: 8096, Backlog: 511,
		FileSystem: "ext4", Disk: 100, DiskFree: 50, DataMode: 0o750, Dir: "/data", ConfigFile: "/etc/kvrocks.toml",
		ConfigMode: 0o640, Secrets: []string{"requirepass"}, Open: []string{"0.0.0.0"}, Protected: true, Password: true,
		Sync: true, LogLevel: "info", Certificate: "cert.pem", CertificateEnd: now.AddDate(1, 0, 0), Now: now,
	}
}

func TestFacts(t *testing.T) {
	set := func(f *Facts, name, value string) {
		m := fstest.MapFS{}
		maps.Copy(m, f.Root.(fstest.MapFS))
		m[name] = &fstest.MapFile{Data: []byte(value + "\n")}
		f.Root = m
	}
	for _, tt := range []struct {
		change func(f *Facts)
		want   string // level, and how the finding begins
		do     string
	}{
		{func(*Facts) {}, "", ""},
		{func(f *Facts) { *f = Facts{Sync: true} }, "", ""}, // nothing is known
		{func(f *Facts) { set(f, "proc/sys/vm/overcommit_memory", "2") }, "wrong: vm.overcommit_memory is 2", "sysctl"},
		{func(f *Facts) { set(f, "sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never") },
			"advice: transparent huge pages are on for all memory", "echo madvise"},
		{func(f *Facts) { set(f, "sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]") },
			"advice: transparent huge pages are off", "echo madvise"},
		{func(f *Facts) { set(f, "proc/sys/net/core/somaxconn", "128") },
			"advice: net.core.somaxconn is 128: of tcp-backlog 511", "sysctl net.core.somaxconn=511"},
		{func(f *Facts) { set(f, "proc/swaps", "Filename Type\n/dev/sda2 partition") }, "advice: vm.swappiness is 60", ""},
		{func(f *Facts) { set(f, "sys/devices/system/clocksource/clocksource0/current_clocksource", "acpi_pm") },
			"advice: the clock source is acpi_pm", ""},
		{func(f *Facts) { set(f, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave") },
			"advice: the processor saves power", ""},
		{func(f *Facts) { f.OpenFiles = 10000 },
			"advice: the process may open 10000 files; 10000 clients, 8096 table files and some more need 18160",
			"LimitNOFILE=18160"},
		{func(f *Facts) { f.OpenFiles = 1024 }, "wrong: the process may open 1024 files", ""},
		{func(f *Facts) { f.FileSystem = "tmpfs" }, "wrong: /data lies on a tmpfs", ""},
		{func(f *Facts) { f.FileSystem = "nfs" }, "advice: /data lies on a file system of another machine (nfs)", ""},
		{func(f *Facts) { f.DiskFree = 4 }, "wrong: the disk of /data is 96 % full", ""},
		{func(f *Facts) { f.DiskFree = 10 }, "advice: the disk of /data is 90 % full", ""},
		{func(f *Facts) { f.ConfigMode = 0o644 }, "wrong: /etc/kvrocks.toml holds requirepass, and everybody", "chmod 640"},
		{func(f *Facts) { f.ConfigMode, f.Secrets = 0o644, nil }, "", ""},
		{func(f *Facts) { f.DataMode = 0o777 }, "wrong: everybody on the machine may change the files in /data", ""},
		{func(f *Facts) { f.Password = false }, "advice: there is no password, so that protected mode refuses", ""},
		{func(f *Facts) { f.Password, f.Protected = false, false }, "wrong: everybody who reaches 0.0.0.0 may read", ""},
		{func(f *Facts) { f.Password, f.Protected, f.Open = false, false, nil }, "", ""},
		{func(f *Facts) { f.Admin = ":9121" }, "advice: everybody who reaches admin-listen :9121 may read the metrics, " +
			"without a password and without TLS", "bind admin-listen to 127.0.0.1"},
		{func(f *Facts) { f.Admin, f.Console = "0.0.0.0:9121", true }, "advice: everybody who reaches admin-listen " +
			"0.0.0.0:9121 may read the metrics, without a password and without TLS; who signs in to the console", ""},
		{func(f *Facts) { f.Console = true }, "", ""},
		{func(f *Facts) { f.NoWAL = true }, "wrong: rocksdb.write_options.disable_wal is on", ""},
		{func(f *Facts) { f.Sync = false }, "advice: sync is off", ""},
		{func(f *Facts) { f.Plan = "too much" }, "wrong: memory: too much", ""},
		{func(f *Facts) { f.LogLevel = "debug" }, "advice: log-level is debug", ""},
		{func(f *Facts) { f.CertificateEnd = f.Now.AddDate(0, 0, 7) },
			"advice: the certificate in cert.pem expires on 2026-01-09", ""},
		{func(f *Facts) { f.Unverified = true }, "wrong: tls-replication does not verify the master", "tls-ca-cert-file"},
		{func(f *Facts) { f.CertificateEnd = f.Now }, "wrong: the certificate in cert.pem has expired", ""},
		{func(f *Facts) { f.Warnings = []string{"settings without effect here: a"} }, "advice: settings without effect", ""},
	} {
		f := sound()
		tt.change(&f)
		found := append(Machine(&f), Settings(&f)...)
		switch {
		case tt.want == "" && len(found) == 0:
		case len(found) != 1 || tt.want == "" || !strings.HasPrefix(found[0].Level.String()+": "+found[0].What, tt.want) ||
			!strings.Contains(found[0].Do, tt.do) || found[0].Do == "":
			t.Errorf("%s: %+v", tt.want, found)
		}
	}
}

func TestServer(t *testing.T) {
	const sound = "# Server\r\nversion:2.10.0\r\ncorrupt_reads:0\r\nrecovery_lost:\r\nused_disk_percent: 20%\r\n" +
		"maxclients:100\r\n" +
		"connected_clients:3\r\nlevel0_file_limit_stop[metadata]:0\r\nrole:master\r\nlast_bgsave_status:ok\r\n" +
		"used_memory_rss:100\r\ntotal_system_memory:1000\r\nmemory_budget:200\r\nloading:0\r\n"
	for _, tt := range []struct{ more, want string }{
		{"", ""},
		{"corrupt_reads:3", "wrong: 3 reads have met damaged files"},
		{"recovery_lost:writes 5 to 6", "wrong: the last start has lost writes: writes 5 to 6"},
		{"num_background_errors:1", "wrong: RocksDB has met 1 errors"},
		{"num_background_errors:1\r\nbackground_error:a compaction needs more space", "wrong: a compaction needs more space"},
		{"loading:1", "advice: the server loads"},
		{"used_disk_percent: 97%", "wrong: the disk of the data is 97% full"},
		{"used_disk_percent: 88%", "advice: the disk of the data is 88% full"},
		{"used_memory_rss:950\nused_memory_rss_human:950B", "wrong: the process has 950B"},
		{"used_memory_rss:300", "advice: the process has"},
		{"connected_clients:90", "wrong: 90 of at most 100 clients"},
		{"rejected_connections:5", "advice: 5 connections were refused"},
		{"client_output_buffer_limit_disconnections:2", "advice: 2 clients were cut off"},
		{"acl_access_denied_auth:101", "advice: 101 attempts"},
		{"level0_file_limit_stop[metadata]:7\nmemtable_count_limit_stop[default]:1",
			"advice: RocksDB has stopped writes 8 times"},
		{"role:slave\nmaster_link_status:down\nmaster_host:h\nmaster_port:1",
			"wrong: the replica has no connection to its master h:1"},
		{"last_bgsave_status:err", "wrong: the last backup failed"},
		{"block_cache_data_hit:100000\nblock_cache_data_miss:300000\nblock_cache_usage:95\nblock_cache_capacity:100",
			"advice: 75 % of the blocks"},
		{"block_cache_data_hit:100000\nblock_cache_data_miss:300000\nblock_cache_usage:80\nblock_cache_capacity:100", ""},
	} {
		found := Server(resp.ParseInfo(sound + tt.more))
		switch {
		case tt.want == "" && len(found) == 0:
		case len(found) != 1 || tt.want == "" || !strings.HasPrefix(found[0].Level.String()+": "+found[0].What, tt.want):
			t.Errorf("%s: %+v", tt.more, found)
		}
	}
}
