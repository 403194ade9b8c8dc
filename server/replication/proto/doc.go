// Package proto is the wire format of Kvrocks's replication as pure functions on bytes: the requests of a replica,
// the replies of a master, the frames of the stream of write batches, the transfer of the files of a full sync. It does
// no I/O. Append functions take the bytes to append to. Read functions take the bytes that have arrived so far and
// return the number of bytes that they have used, 0 when more must arrive.
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
// Requests are RESP arrays of bulk strings. Each frame of the stream is one bulk string: a write batch of RocksDB with
// its sequence number, "ping", "_getack", "_getsync" or "_time <ms>". The sequence of PSYNC is that of the first batch
// that the replica lacks.
//
// # Acknowledgements
//
// A replica of Kvrocks 2.10 sends nothing during the stream and takes "_getack" for a broken batch; a master of 2.10
// never reads during the stream. Since 2.13 both know acknowledgements. So a master sends "_getack" only to a replica
// that has sent "replconf capa ack". No Kvrocks knows that option; the replica ignores the error. A replica sends
// acknowledgements to every master, but never waits for a master to read them.
//
// "_getsync", for a replica that has sent "capa sync", asks the replica to write its log to the disk. "fack" is the
// sequence number of the last write on the disk.
//
// # Time
//
// Compactions of a replica must not drop records that have expired only by the replica's own clock, see
// engine/replica.go. So about once a second a master sends "_time <ms>", before or after any batch, to the replicas
// that have sent "replconf capa ack". All writes that the master had begun before that time, by its own clock, are
// earlier in the stream. (The time is the present time minus the max duration of a transaction; five minutes is
// plenty.)
//
// # The full sync
//
// Each request has its own connection, which begins with AUTH.
//
//	_fetch_meta                                  <file>,<file>,... (a raw line)
//	_fetch_file <file>,<file>,...                for each file: <size> as a raw line, then that many bytes
package proto
