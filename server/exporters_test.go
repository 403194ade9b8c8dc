package server_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// exported are the fields of INFO that exporters for Prometheus read, by exporter: redis_exporter 1.8x and
// kvrocks_exporter 1.0, exporter/exporter.go of each. Fields of other products (modules, KeyDB, Tile38, cloud services)
// are left out.
var exported = map[string]string{
	"redis_exporter": `
uptime_in_seconds process_id io_threads_active hz configured_hz
connected_clients blocked_clients maxclients tracking_clients clients_in_timeout_table pubsub_clients watching_clients
total_watched_keys total_blocking_keys total_blocking_keys_on_nokey client_longest_output_list client_biggest_input_buf
client_recent_max_output_buffer client_recent_max_input_buffer
allocator_active allocator_allocated allocator_resident allocator_frag_ratio allocator_frag_bytes allocator_muzzy
allocator_rss_ratio allocator_rss_bytes used_memory used_memory_rss used_memory_peak used_memory_lua used_memory_vm_eval
used_memory_scripts_eval used_memory_overhead used_memory_startup used_memory_dataset number_of_cached_scripts
number_of_functions number_of_libraries used_memory_vm_functions used_memory_scripts used_memory_functions
used_memory_vm_total maxmemory maxmemory_policy mem_fragmentation_ratio mem_fragmentation_bytes mem_clients_slaves
mem_clients_normal mem_cluster_links mem_aof_buffer mem_replication_backlog mem_not_counted_for_evict
mem_total_replication_buffers mem_overhead_db_hashtable_rehashing lazyfree_pending_objects lazyfreed_objects
active_defrag_running active_defrag_hits active_defrag_misses active_defrag_key_hits active_defrag_key_misses
migrate_cached_sockets expired_stale_perc
loading async_loading rdb_changes_since_last_save rdb_bgsave_in_progress rdb_last_save_time rdb_last_bgsave_status
rdb_last_bgsave_time_sec rdb_current_bgsave_time_sec rdb_saves rdb_last_cow_size rdb_last_load_keys_expired
rdb_last_load_keys_loaded aof_enabled aof_rewrite_in_progress aof_rewrite_scheduled aof_last_rewrite_time_sec
aof_current_rewrite_time_sec aof_last_cow_size aof_current_size aof_base_size aof_pending_rewrite aof_buffer_length
aof_rewrite_buffer_length aof_pending_bio_fsync aof_delayed_fsync aof_last_bgrewrite_status aof_last_write_status
module_fork_in_progress module_fork_last_cow_size
current_eviction_exceeded_time pubsub_channels pubsub_patterns pubsubshard_channels latest_fork_usec tracking_total_keys
tracking_total_items tracking_total_prefixes instantaneous_eventloop_cycles_per_sec
instantaneous_eventloop_duration_usec total_connections_received total_commands_processed rejected_connections
total_net_input_bytes total_net_output_bytes total_net_repl_input_bytes total_net_repl_output_bytes expired_subkeys
expired_keys expired_time_cap_reached_count expire_cycle_cpu_milliseconds evicted_keys evicted_clients evicted_scripts
total_eviction_exceeded_time keyspace_hits keyspace_misses eventloop_cycles eventloop_duration_sum
eventloop_duration_cmd_sum unexpected_error_replies total_error_replies dump_payload_sanitizations
total_reads_processed total_writes_processed io_threaded_reads_processed io_threaded_writes_processed
client_query_buffer_limit_disconnections client_output_buffer_limit_disconnections reply_buffer_shrinks
reply_buffer_expands acl_access_denied_auth acl_access_denied_cmd acl_access_denied_key acl_access_denied_channel
connected_slaves repl_backlog_size repl_backlog_active repl_backlog_first_byte_offset repl_backlog_histlen
master_repl_offset second_repl_offset slave_expires_tracked_keys slave_priority sync_full sync_partial_ok
sync_partial_err master_host master_port slave_read_only master_link_status master_last_io_seconds_ago
master_sync_in_progress slave_repl_offset cluster_enabled cluster_stats_messages_sent cluster_stats_messages_received
used_cpu_sys used_cpu_user used_cpu_sys_children used_cpu_user_children used_cpu_sys_main_thread
used_cpu_user_main_thread used_active_time_main_thread
redis_version redis_build_id redis_mode os tcp_port run_id master_replid role slave0 db0 cmdstat_get errorstat_ERR
latency_percentiles_usec_get`,
	"kvrocks_exporter": `
uptime_in_seconds process_id connected_clients blocked_clients monitor_clients used_memory used_memory_rss
used_memory_lua total_system_memory loading pubsub_channels pubsub_patterns keyspace_hits keyspace_misses
connected_slaves master_repl_offset sync_full sync_partial_ok sync_partial_err sequence used_db_size max_db_size
disk_capacity used_disk_size all_mem_tables cur_mem_tables snapshots num_immutable_tables num_running_flushes
memtable_flush_pending compaction_pending num_running_compactions num_live_versions num_superversion
num_background_errors flush_count compaction_count instantaneous_ops_per_sec is_bgsaving is_compacting put_per_sec
get_per_sec seek_per_sec next_per_sec prev_per_sec total_connections_received total_commands_processed
rejected_connections total_net_input_bytes total_net_output_bytes used_cpu_sys used_cpu_user
block_cache_hit block_cache_miss block_cache_data_hit block_cache_data_miss block_cache_index_hit
block_cache_index_miss block_cache_filter_hit block_cache_filter_miss block_cache_usage
index_and_filter_cache_usage[default] block_cache_pinned_usage[default] estimate_keys[default]
role version git_sha1 os tcp_port gcc_version master_host master_port master_link_status master_sync_in_progress
master_last_io_seconds_ago slave_repl_offset slave_read_only`,
}

// TestExportedFields: each field that an exporter reads is in INFO, or docs/metrics.md explains why it does not exist.
func TestExportedFields(t *testing.T) {
	h := servertest.Start(t, "admin-listen", "127.0.0.1:0")
	c := h.Dial(t)
	c.Want("SET k v", "+OK\r\n")
	c.Want("GET k", "$1\r\nv\r\n")
	c.Do("NOSUCHCOMMAND")
	r := servertest.Start(t)
	rc := r.Dial(t)
	rc.Send(servertest.Pipeline(replicaOf(r, h)))
	rc.Reply()
	caughtUp(t, r, h)
	fields, _ := servertest.ParseInfo(t, c.Do("INFO", "all"))
	ofReplica, _ := servertest.ParseInfo(t, rc.Do("INFO", "all"))
	docs := require.File(t, "../docs/metrics.md")
	_, section, ok := strings.Cut(string(docs), "\n## Fields that do not exist here\n")
	if !ok {
		t.Fatal("docs/metrics.md has no section \"Fields that do not exist here\"")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	absent := map[string]bool{}
	for _, name := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(section, -1) {
		absent[name[1]] = true
	}
	known := map[string]bool{}
	for exporter, names := range exported {
		for _, name := range strings.Fields(names) {
			known[name] = true
			_, here := fields[name]
			_, there := ofReplica[name]
			switch {
			case here || there:
				if absent[name] {
					t.Errorf("%s: INFO has %s, and docs/metrics.md says that it does not", exporter, name)
				}
			case !absent[name]:
				t.Errorf("%s: %s is neither in INFO nor explained in docs/metrics.md", exporter, name)
			}
		}
	}
	for name := range absent {
		if !known[name] {
			t.Errorf("docs/metrics.md explains %s, which no exporter reads", name)
		}
	}
	if fields["total_net_repl_output_bytes"] == "0" || ofReplica["total_net_repl_input_bytes"] == "0" {
		t.Errorf("bytes of replication: sent %s, received %s", fields["total_net_repl_output_bytes"],
			ofReplica["total_net_repl_input_bytes"])
	}
}

// TestDatabaseLinesFirst: redis_exporter and Telegraf take any comment for the name of a section, and find the lines of
// databases only in the section Keyspace.
func TestDatabaseLinesFirst(t *testing.T) {
	for _, tt := range []struct{ databases, want string }{
		{"0", "db0:keys=1,expires=0,avg_ttl=0,expired=0"},
		{"2", "db0:keys=1,expires=0,avg_ttl=0,expired=0\r\ndb1:keys=1,expires=0,avg_ttl=0,expired=0"},
	} {
		c := servertest.Start(t, "redis-databases", tt.databases).Dial(t)
		c.Want("SET k v", "+OK\r\n")
		if tt.databases != "0" {
			c.Want("COPY k k DB 1", ":1\r\n")
		}
		if got, want := c.Do("INFO", "keyspace"), "# Keyspace\r\n"+tt.want+"\r\n# Last DBSIZE SCAN time: "; !strings.Contains(
			got, want) {
			t.Errorf("redis-databases %s: %q has no %q", tt.databases, got, want)
		}
	}
}

// TestExpiredCounts: INFO counts keys and fields that have expired, whether or not they are replaced or deleted.
func TestExpiredCounts(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.DoAll("SET a 1 PX 1;SET b 1 PX 1;SET c 1 EX 1000;HSET h f v g v;HPEXPIRE h 1 FIELDS 1 f")
	servertest.Eventually(t, "the keys and the field have expired", func() bool {
		return c.Do("EXISTS", "a", "b") == ":0\r\n" && c.Do("HEXISTS", "h", "f") == ":0\r\n"
	})
	c.Want("SET a 2", "+OK\r\n") // replaces the expired key
	c.Do("HSET", "h", "f", "w")
	var fields map[string]string
	servertest.Eventually(t, "both keys are counted", func() bool {
		fields, _ = servertest.ParseInfo(t, c.Do("INFO", "stats"))
		return fields["expired_keys"] == "2"
	})
	if fields["expired_subkeys"] != "1" {
		t.Errorf("expired_subkeys:%s", fields["expired_subkeys"])
	}
	c.Want("CONFIG RESETSTAT", "+OK\r\n")
	fields, _ = servertest.ParseInfo(t, c.Do("INFO", "stats"))
	if fields["expired_keys"] != "0" || fields["expired_subkeys"] != "0" {
		t.Errorf("after CONFIG RESETSTAT: %s, %s", fields["expired_keys"], fields["expired_subkeys"])
	}
}

// TestWatchedKeys: INFO counts a key once if two clients watch it.
func TestWatchedKeys(t *testing.T) {
	h := servertest.Start(t)
	a, b := h.Dial(t), h.Dial(t)
	a.Want("WATCH x y", "+OK\r\n")
	b.Want("WATCH x", "+OK\r\n")
	for _, want := range [][2]string{{"2", "2"}, {"1", "1"}} {
		fields, _ := servertest.ParseInfo(t, b.Do("INFO", "clients"))
		if fields["watching_clients"] != want[0] || fields["total_watched_keys"] != want[1] {
			t.Errorf("%s clients watch %s keys, want %v", fields["watching_clients"], fields["total_watched_keys"], want)
		}
		a.Want("UNWATCH", "+OK\r\n")
	}
}
