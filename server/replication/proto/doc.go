// Package proto is the wire format of Kvrocks's replication as pure functions on bytes: what a replica asks, what a
// master answers, the frames of the stream of write batches, the transfer of the files of a full sync. It does no I/O.
// The functions that append take the bytes to append to; those that read take what has arrived so far and return how
// many bytes of it they have used, 0 when more must arrive.
//
// Sources: Kvrocks 2.10's src/cluster/replication.cc and src/commands/cmd_replication.cc, the acknowledgements of its
// version 2.13; the recordings in internal/fixture.
//
// # The link
//
//	replica                                      master
//	AUTH <masterauth>                            +OK
//	_db_name                                     <name>            (a raw line)
//	replconf listening-port <n> [ip-address <a>] +OK
//	replconf capa ack [capa sync]                +OK or -ERR ...   (basalt only, see below)
//	PSYNC [<id of 16 bytes>] <sequence>          +OK, then the stream; or -ERR ...
//	replconf ack <sequence> [fack <sequence>]    nothing           (while the stream lasts)
//
// Requests are RESP arrays of bulk strings. Of the stream, each frame is one bulk string: a write batch of RocksDB
// with its sequence number, "ping", "_getack", "_getsync" or "_time <ms>". The sequence of PSYNC is that of the first
// batch that the replica lacks.
//
// # Acknowledgements
//
// A replica of Kvrocks 2.10 sends nothing during the stream and takes "_getack" for a broken batch; a master of 2.10
// never reads what a replica sends then. From 2.13 on both know acknowledgements. So a master sends "_getack" only to a
// replica that has said "replconf capa ack" (an unknown option to any Kvrocks, whose error the replica ignores), and a
// replica acknowledges to every master, but never waits until one reads that.
//
// "_getsync", for a replica that has said "capa sync", asks it to bring its log to the disk: "fack" tells up to which
// write that has happened.
//
// # Time
//
// Compactions of a replica must not drop what has expired by its own clock only, see engine/replica.go. So about
// once a second a master sends "_time <ms>", before or after any batch, to the replicas that have said "replconf capa
// ack": by its clock, all writes that it had begun before are in the stream before it. (Its present time less what
// its longest transaction may take; five minutes is plenty.)
//
// # The full sync
//
// Each request has a connection of its own, with AUTH first.
//
//	_fetch_meta                                  <file>,<file>,... (a raw line)
//	_fetch_file <file>,<file>,...                for each file: <size> as a raw line, then that many bytes
package proto
