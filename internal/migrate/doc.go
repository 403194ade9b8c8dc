// Package migrate moves the data of a running server into another one while clients go on to use the first, and
// compares servers.
//
// # Two ways
//
// A target that can follow the source by itself does: it is told REPLICAOF, and this package watches. That is a basalt
// without a cluster, of any source, and a Kvrocks, of a Kvrocks or a basalt. See follower.
//
// Into any other target, a cluster or a Redis, this package copies. It is a replica of the source, of Redis's kind
// (package redislink) or of Kvrocks's (package proto), and learns from the stream which keys change. A key that has
// changed is read whole from the source, as it is then, and put in the place of the old one: DUMP and RESTORE. So keys
// of one command may lie in different slots, whatever has changed a key is followed, what is done twice does no harm,
// and the target becomes equal to the source as soon as it has caught up. Until then keys may be newer than others.
// See copier.
//
// # Where a copy goes on
//
// How far it is, is in the target, as the string with the name [PositionKey]:
//
//	copying                          all keys are being copied; the next run begins anew
//	redis <state of redislink>       up to this place of the stream of a Redis
//	kvrocks <host:port> <sequence> [<id>]
//	                                 up to this write of that Kvrocks or basalt, of the history with this replication id
//
// It is written after the keys, so that it may be too old but never too new. The end of the migration deletes it.
//
// # The end
//
// The cut-over pauses the writes of the source, waits until the target has the last one, compares, makes the target
// independent, and lets the source refuse writes. Whatever fails before the target is independent is undone: the source
// takes writes again.
package migrate

// PositionKey is the key of a target that stores the position of a copy.
const PositionKey = "basalt:migrate"
