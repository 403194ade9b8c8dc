package config

import "github.com/basaltdb/basalt/server/config/memplan"

// MemoryPlan chooses the sizes of these settings on this host.
func (c *Config) MemoryPlan() memplan.Plan { return c.memoryPlan(memplan.Detect()) }

func (c *Config) memoryPlan(m memplan.Memory) memplan.Plan {
	mib := func(name string) uint64 { return uint64(c.Int(name)) << 20 }
	cache := mib("rocksdb.block_cache_size")
	if cache == 0 {
		cache = mib("rocksdb.subkey_block_cache_size") + mib("rocksdb.metadata_block_cache_size")
	}
	return memplan.New(m, memplan.Settings{
		Budget:      mib("memory-budget-mb"),
		BlockCache:  cache,
		WriteBuffer: mib("rocksdb.write_buffer_size"),
		RowCache:    mib("rocksdb.row_cache_size"),
		Derived:     c.Int("derived-state-size") << 20,
		Buffers:     int(c.Int("rocksdb.max_write_buffer_number")),
	})
}
