// Package migration moves the keys of slots from one node of a cluster to another while clients use them. It speaks the
// protocol of Kvrocks 2.10, so either side may be a Kvrocks.
//
// # The source
//
//	            source                                   destination
//	start       takes a snapshot
//	            AUTH, CLUSTER IMPORT range 0  ------->   deletes what it has of the slots, serves the source alone
//	snapshot    all live keys of the slots    ------->
//	log         what was written since        ------->   (again and again, until little is missing)
//	            keeps on disk that the slots are leaving; replicas know it
//	forbidden   writes are answered TRYAGAIN; none is under way
//	            the rest of the log           ------->
//	success     CLUSTER IMPORT range 1        ------->   keeps on disk that the slots were imported
//	            keeps on disk that the slots have moved
//	            CLUSTER IMPORT range 65       ------->   serves everybody
//	            answers MOVED
//	failed      writes are allowed
//	            CLUSTER IMPORT range 2        ------->   deletes what it got
//
// Who knows that the destination has kept the slots hands them over. A source whose answer was lost asks again, by the
// same command on a new connection; so does the next process of the source, and the replica that is the master instead
// of it. An error means that the import has ended without success, for good. A source that cannot ask goes on with the
// slots after some time, and revokes them at the destination once it can. What an older connection says of an import of
// the same slots does not count: a network may have held it back.
//
// A destination does not serve the slots before the source sends clients there: the source may have given up
// meanwhile. It asks by a write of a key that nobody has, which is answered MOVED, or TRYAGAIN as long as the source
// does not know, or runs: then what has come is void. CLUSTER IMPORT range 64, which Kvrocks does not know, tells the
// destination at the beginning to do so. After a start, and in a replica that is the master now, it asks in any
// case. A Kvrocks serves the slots at once, and with it a client that comes unbidden can write what is lost when the
// answer is lost too.
//
// The keys stay at the source until the controller gives the slots away.
//
// There are two ways to carry the records, see package carry:
//
//   - APPLYBATCH with RocksDB's write batches (migrate-type raw-key-value), see [carry.Raw]. The records arrive byte by
//     byte, whatever their type. Between two basalts the snapshot may go by table files, see [carry.Raw.BeginFiles].
//   - commands (redis-command), see [carry.Mirror]. Types that commands cannot carry exactly go by APPLYBATCH
//     too.
//
// A destination that lacks a type, or that lacks APPLYBATCH where it is needed, ends the migration; no key is left out.
//
// # The destination
//
// See [destination.Import].
package migration
