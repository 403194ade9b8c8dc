package info

import "slices"

// constants are fields of Redis with a constant value here, by section, because monitoring tools read them. They do not
// replace a field that a section writes itself.
var constants = map[string][]Field{
	"Server": {
		flag("redis_git_dirty"), text("multiplexing_api", "go"), number("lru_clock"), flag("io_threads_active"),
	},
	"Clients": {number("cluster_connections"), number("clients_in_timeout_table")},
	"Memory": {
		number("mem_not_counted_for_evict"), number("mem_total_replication_buffers"),
		number("mem_clients_slaves"), number("mem_cluster_links"), number("mem_aof_buffer"), text("mem_allocator", "libc"),
		flag("active_defrag_running"), number("lazyfree_pending_objects"), number("lazyfreed_objects"),
	},
	"Persistence": {
		flag("loading"), flag("async_loading"), number("rdb_changes_since_last_save"), // every write is in the log
		flag("aof_enabled"), flag("aof_rewrite_in_progress"), flag("aof_rewrite_scheduled"),
		text("aof_last_bgrewrite_status", "ok"),
	},
	"Stats": {
		number("evicted_keys"), number("evicted_clients"), number("migrate_cached_sockets"),
		number("latest_fork_usec"), number("total_forks"), number("unexpected_error_replies"),
	},
	"CPU": {text("used_cpu_sys_children", "0.000000"), text("used_cpu_user_children", "0.000000")},
}

func flag(name string) Field        { return Field{Name: name, Kind: Flag} }
func number(name string) Field      { return Field{Name: name, Kind: Gauge} }
func text(name, value string) Field { return Field{Name: name, Kind: Text, Text: value} }

// addConstants adds the constants of a section that the section did not write itself.
func (w *Writer) addConstants(section string) {
	for _, c := range constants[section] {
		if !slices.ContainsFunc(w.fields, func(f Field) bool { return f.Name == c.Name }) {
			w.Add(c)
		}
	}
}
