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
//	forbidden   writes are answered TRYAGAIN; none is under way
//	            the rest of the log           ------->
//	success     CLUSTER IMPORT range 1        ------->   keeps on disk that the slots were imported, serves everybody
//	            keeps on disk that the slots have moved, answers MOVED
//	failed      writes are allowed
//	            CLUSTER IMPORT range 2        ------->   deletes what it got
//
// Until the source has kept on disk that the slots have moved, nobody is sent to the destination: whatever happens
// before, the source goes on with the slots, and what the destination has is void. From then on the source answers
// nobody, also after a crash. The keys stay at the source until the controller gives the slots away.
//
// There are two ways to carry the records, see [Settings.Raw]:
//
//   - APPLYBATCH with RocksDB's write batches (migrate-type raw-key-value), see rawSender. The records arrive byte by
//     byte, whatever their type.
//   - commands (redis-command), see commander and mirror. Types that commands cannot carry exactly go by APPLYBATCH too.
//
// A destination that lacks a type, or that lacks APPLYBATCH where it is needed, ends the migration; no key is left out.
//
// # The destination
//
// See [Import].
package migration
