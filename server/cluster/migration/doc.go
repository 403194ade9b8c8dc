// Package migration moves the keys of slots from one node of a cluster to another while clients use them. It speaks the
// protocol of Kvrocks 2.10, so either side may be a Kvrocks.
//
// # The source
//
//	            source                                   destination
//	start       takes a snapshot
//	            AUTH, CLUSTER IMPORT range 0  ------->   deletes its keys of the slots, serves only the source
//	snapshot    all live keys of the slots    ------->
//	log         writes since the snapshot     ------->   (repeatedly, until few are missing)
//	            records that the slots are leaving; replicas know it
//	forbidden   writes get TRYAGAIN; none is running
//	            the rest of the log           ------->
//	success     CLUSTER IMPORT range 1        ------->   records that the slots were imported
//	            records that the slots have moved
//	            CLUSTER IMPORT range 65       ------->   serves all clients
//	            replies MOVED
//	failed      writes are allowed
//	            CLUSTER IMPORT range 2        ------->   deletes what it got
//
// The source hands the slots over when it knows that the destination has recorded them. If the reply is lost, the
// source repeats the command on a new connection. The next process of the source does the same, and so does the replica
// that replaces it as master. An error means that the import has ended without success, for good. A source that cannot
// reach the destination keeps the slots after some time, and revokes them at the destination once it can. The
// destination ignores what an older connection sends about an import of the same slots: a network may have delayed it.
//
// A destination does not serve the slots before the source redirects clients, because the source may have given up
// meanwhile. It asks by writing a key that no client uses. The reply is MOVED when the source redirects clients, and
// TRYAGAIN while the source does not know yet. If the write runs, the source has kept the slots, and the imported keys
// are void. CLUSTER IMPORT range 64, which Kvrocks does not know, tells the destination at the beginning to ask. After
// a start, and in a replica that has become the master, the destination always asks. A Kvrocks serves the slots at
// once: if the reply is lost, a write of a client that connects to it directly may be lost, too.
//
// The source keeps the keys until the controller assigns the slots to another node.
//
// There are two ways to send the records, see package carry:
//
//   - APPLYBATCH with RocksDB's write batches (migrate-type raw-key-value), see [carry.Raw]. The records arrive byte by
//     byte, whatever their type. Between two basalts the snapshot may go by table files, see [carry.Raw.BeginFiles].
//   - commands (redis-command), see [carry.Mirror]. Types that commands cannot represent exactly go by
//     APPLYBATCH, too.
//
// If the destination lacks a type, or lacks APPLYBATCH where it is needed, the migration fails. No key is left out.
//
// # The destination
//
// See [destination.Import].
package migration
