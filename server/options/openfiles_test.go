package options

import "testing"

// TestDivideFiles: connections leave RocksDB the descriptors that it needs, however few there are.
func TestDivideFiles(t *testing.T) {
	for _, tt := range []struct{ limit, wanted, clients, tables int64 }{
		{20000, 8096, 11840, 8096},
		{4096, 8096, 2016, 2016},
		{256, 8096, 96, 96},
		{256, 50, 142, 50},
		{100_000, -1, 98_936, 1000},
		{10, 8096, 1, 1},
	} {
		if clients, tables := divideFiles(tt.limit, tt.wanted); clients != tt.clients || tables != tt.tables {
			t.Errorf("%d files, max_open_files %d: %d clients, %d tables, want %d, %d", tt.limit, tt.wanted, clients, tables,
				tt.clients, tt.tables)
		}
	}
}
