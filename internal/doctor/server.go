package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

// Server checks the fields of INFO of a running server.
func Server(info map[string]string) (found []Finding) {
	add := func(l Level, what, do string) { found = append(found, Finding{l, "server", what, do}) }
	n := func(name string) float64 {
		f, _ := strconv.ParseFloat(strings.TrimSuffix(info[name], "%"), 64)
		return f
	}
	if n("corrupt_reads") > 0 {
		add(Wrong, fmt.Sprintf("%s reads have met damaged files", info["corrupt_reads"]),
			"look into the log, check a backup with basalt check, read docs/recovery.md")
	}
	if lost := info["recovery_lost"]; lost != "" {
		add(Wrong, "the last start has lost writes: "+lost, "restore them from a backup or a replica: docs/recovery.md")
	}
	if now := info["background_error"]; now != "" {
		add(Wrong, now, "make room on the disk; if it is not full, look into docs/operations.md, Disk")
	} else if n("num_background_errors") > 0 {
		add(Wrong, fmt.Sprintf("RocksDB has met %s errors in the background", info["num_background_errors"]),
			"look into the log: the disk may be full or failing")
	}
	if info["loading"] == "1" || info["async_loading"] == "1" {
		add(Advice, "the server loads its data", "wait until loading is 0 in INFO")
	}
	if used := n("used_disk_percent"); used >= 95 {
		add(Wrong, fmt.Sprintf("the disk of the data is %s full: compactions and backups need space",
			info["used_disk_percent"]),
			"make room")
	} else if used >= 85 {
		add(Advice, fmt.Sprintf("the disk of the data is %s full: compactions and backups need space",
			info["used_disk_percent"]),
			"plan for more space")
	}
	if total, rss := n("total_system_memory"), n("used_memory_rss"); total > 0 && rss > 0.9*total {
		add(Wrong, fmt.Sprintf("the process has %s of %s of memory", info["used_memory_rss_human"],
			info["total_system_memory_human"]), "lower memory-budget-mb")
	} else if budget := n("memory_budget"); budget > 0 && rss > 1.25*budget {
		add(Advice, fmt.Sprintf("the process has %s of memory, the budget is %s", info["used_memory_rss_human"],
			info["memory_budget_human"]), "look at INFO memory for who takes it: clients with big replies, scripts")
	}
	if most := n("maxclients"); most > 0 && n("connected_clients") > 0.8*most {
		add(Wrong, fmt.Sprintf("%s of at most %s clients are connected", info["connected_clients"], info["maxclients"]),
			"raise maxclients, or set timeout so that idle clients leave")
	}
	if n("rejected_connections") > 0 {
		add(Advice, fmt.Sprintf("%s connections were refused since the start", info["rejected_connections"]),
			"raise maxclients, or look for a client that connects in a loop")
	}
	if n("client_output_buffer_limit_disconnections") > 0 {
		add(Advice, fmt.Sprintf("%s clients were cut off because they read too slowly",
			info["client_output_buffer_limit_disconnections"]), "see client-output-buffer-limit")
	}
	if n("acl_access_denied_auth") > 100 {
		add(Advice, fmt.Sprintf("%s attempts to sign in have failed", info["acl_access_denied_auth"]),
			"look at ACL LOG and the log for where they come from")
	}
	stalls := 0.0
	for name := range info {
		if strings.Contains(name, "_stop[") || strings.Contains(name, "_stop_with_ongoing_compaction[") {
			stalls += n(name)
		}
	}
	if stalls > 0 {
		add(Advice, fmt.Sprintf("RocksDB has stopped writes %.0f times since the start: compactions do not keep up", stalls),
			"raise rocksdb.max_background_jobs, use a faster disk, or write less: docs/tuning.md")
	}
	if info["role"] == "slave" && info["master_link_status"] == "down" {
		add(Wrong, fmt.Sprintf("the replica has no connection to its master %s:%s", info["master_host"], info["master_port"]),
			"look into the log; check masterauth and the network")
	}
	for _, name := range []string{"last_bgsave_status", "rdb_last_bgsave_status"} {
		if s := info[name]; s != "" && s != "ok" {
			add(Wrong, "the last backup failed", "look into the log, make room, and call BGSAVE again")
			break
		}
	}
	// Blocks that a cache with room has not yet read say nothing of its size.
	full := n("block_cache_usage") >= 0.9*n("block_cache_capacity")
	hits, misses := n("block_cache_data_hit"), n("block_cache_data_miss")
	if full && hits+misses > 100000 && misses > hits {
		add(Advice, fmt.Sprintf("%.0f %% of the blocks that are read come from the disk", 100*misses/(hits+misses)),
			"a bigger rocksdb.block_cache_size would help, if there is memory")
	}
	return found
}
