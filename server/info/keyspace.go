package info

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Keyspace writes the Keyspace section. Its fields must be set before use.
type Keyspace struct {
	DB *engine.DB
	// Databases returns the number of databases; 0 = only database 0, and namespaces are possible.
	Databases func() int64
	// DiskSize returns the size of the database on disk in bytes; MaxSize its limit, 0 = no limit.
	DiskSize func() uint64
	MaxSize  func() int64
}

// Fields writes the section for a namespace.
func (k *Keyspace) Fields(w *Writer, namespace string) {
	k.databases(w, namespace)
	used, limit := int64(k.DiskSize()), k.MaxSize()
	w.Counter("sequence", None, int64(k.DB.LatestSequence()))
	w.Gauge("used_db_size", Bytes, used)
	w.Gauge("max_db_size", Bytes, limit)
	w.Percent("used_percent", used, limit)
	capacity, usedDisk := diskUsage(k.DB.Dir())
	w.Gauge("disk_capacity", Bytes, capacity)
	w.Gauge("used_disk_size", Bytes, usedDisk)
	w.Percent("used_disk_percent", usedDisk, capacity)
}

// databases writes a line for each database with keys, or without databases one line for the namespace. It writes after
// them when the keys were counted, and whether their number is exact. Kvrocks writes the comment before them, but
// redis_exporter and Telegraf take a comment for the name of a section, and find databases in section Keyspace only.
func (k *Keyspace) databases(w *Writer, namespace string) {
	names := map[int]string{0: namespace}
	if most := k.Databases(); most > 0 {
		clear(names)
		for _, ns := range k.DB.Namespaces() {
			if n, ok := cf.NamespaceDatabase(ns); ok && int64(n) < most {
				names[n] = ns
			}
		}
	}
	numbers := slices.Sorted(maps.Keys(names))
	counts := make([]engine.KeyCount, len(numbers))
	all := engine.KeyCount{}
	all.Exact, all.Scanned = true, time.Now()
	for i, n := range numbers {
		c := k.DB.KeyCount(names[n])
		counts[i] = c
		if !c.Exact && (all.Exact || c.Scanned.Before(all.Scanned)) {
			all.Scanned = c.Scanned
		}
		all.Exact = all.Exact && c.Exact
		all.Bound += c.Bound
		all.Unread += c.Unread
		all.Scanning = all.Scanning || c.Scanning
	}
	for i, n := range numbers {
		if c := &counts[i]; c.Keys > 0 || k.Databases() == 0 {
			number := strconv.Itoa(n)
			w.Record("db"+number, number, func(w *Writer) {
				w.Gauge("keys", None, c.Keys)
				w.Gauge("expires", None, c.Expires)
				w.Gauge("avg_ttl", None, 0)
				w.Gauge("expired", None, 0)
			})
		}
	}
	if all.Scanned.IsZero() {
		w.Comment("WARN: DBSIZE SCAN never performed yet")
	} else { // exact: the same as counting now
		w.Comment("Last DBSIZE SCAN time: " + all.Scanned.Format("Mon Jan _2 15:04:05 2006"))
	}
	kind := "estimate"
	if all.Exact {
		kind = "exact"
	}
	w.Text("key_count", kind)
	w.Gauge("key_count_error_bound", None, all.Bound)
	w.Flag("key_scan_in_progress", all.Scanning)
	w.Gauge("key_scan_unread_keys", None, all.Unread)
}
