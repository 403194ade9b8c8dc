package cf

// The keys of the propagate family, which is replicated but belongs to no namespace.
const (
	// PropagateReplicationID holds the replication id, 16 characters of 0-9 and A-Z.
	PropagateReplicationID = "replication_id_"
	// PropagateNamespaces holds a JSON object of namespaces by token.
	PropagateNamespaces = "__namespace_keys__"
	// PropagateScriptFlush is written by SCRIPT FLUSH to travel in the WAL; compaction drops it. Its value is
	// the command as a RESP array.
	PropagateScriptFlush = "script"
	// PropagateScript begins the key of a script, followed by its SHA-1 in hexadecimal; the value is the script.
	PropagateScript = "lua_f_"
	// PropagateLibrary begins the key of a function library, followed by its name; the value is its source.
	PropagateLibrary = "lua_lib_code_"
	// PropagateBitOrder holds the order in which BITFIELD numbers the bits of bitmaps: [BitOrderRedis]. Without the
	// record the order is that of Kvrocks, which does not know the record.
	PropagateBitOrder = "basalt_bitfield_order"
	// PropagateRedisMaster holds the position of the database in the stream of the Redis master that it follows.
	// Package redislink of the server defines the value. Kvrocks does not know the record.
	PropagateRedisMaster = "basalt_redis_master"
	// PropagateSlotMarks holds what migration has recorded about the slots of this shard, for the replicas. Package
	// cluster of the server defines the value. Kvrocks does not know the record.
	PropagateSlotMarks = "basalt_slot_marks"
	// PropagateImport holds the range of slots of an import that has not ended, for a replica that becomes the master.
	// Kvrocks does not know the record.
	PropagateImport = "basalt_import"
	// PropagateFunction begins the key of a function, followed by its name; the value is its library's name.
	PropagateFunction = "lua_func_lib_"
)

// BitOrderRedis is the value of [PropagateBitOrder].
const BitOrderRedis = "redis"

// ReplicationIDLen is the length of a replication id.
const ReplicationIDLen = 16
