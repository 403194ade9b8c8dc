// Package migrate moves the data of a running server to another one while clients continue to use the first, and
// compares servers.
//
// # Two ways
//
// A target that can follow the source by itself gets REPLICAOF, and this package watches it. A basalt without a cluster
// can follow any source; a Kvrocks can follow a Kvrocks or a basalt. See follower.
//
// To any other target, a cluster or a Redis, this package copies the keys. It is a replica of the source, by the
// protocol of Redis (package redislink) or of Kvrocks (package proto), and learns from the stream which keys change. It
// reads the current value of a changed key from the source and replaces the value in the target: DUMP and RESTORE. So
// the keys of one command may belong to different slots, every kind of change is copied, a repetition does no harm, and
// the target is equal to the source as soon as it has caught up. Until then some keys may be newer than others. See
// copier.
//
// # Where a copy continues
//
// The target stores the position of the copy in the string with the name [PositionKey]:
//
//	copying                          all keys are being copied; the next run starts again
//	redis <state of redislink>       up to this position in the stream of a Redis
//	kvrocks <host:port> <sequence> [<id>]
//	                                 up to this write of that Kvrocks or basalt, in the history with this replication id
//
// The position is written after the keys, so it may be too old but never too new. The end of the migration deletes it.
//
// # The end
//
// The cut-over pauses the writes of the source, waits until the target has the last one, compares, makes the target
// independent, and makes the source refuse writes. After a failure before the target is independent, everything is
// undone: the source accepts writes again.
package migrate

// PositionKey is the key of a target that stores the position of a copy.
const PositionKey = "basalt:migrate"
