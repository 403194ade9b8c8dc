// Package redislink is the replica's side of Redis's replication, as in Redis 5 to 8 and Valkey: the handshake, the
// full synchronisation, the stream of commands. It knows no database: it passes the data of the master to a [Target].
// The caller makes the connection.
//
// # The link
//
//	replica                                        master
//	PING                                           +PONG
//	REPLCONF listening-port <n>                    +OK, or an error that does not matter
//	REPLCONF ip-address <a>                        the same; only with an address
//	REPLCONF capa eof capa psync2                  the same
//	PSYNC ? -1, or PSYNC <id> <offset + 1>         empty lines, one a second, while it prepares; then one of
//	                                                 +FULLRESYNC <id> <offset>, a transfer, and the stream
//	                                                 +CONTINUE [<id>], and the stream
//	                                                 -NOMASTERLINK, -LOADING, -MASTERDOWN: not now
//	an empty line a second during the transfer
//	REPLCONF ACK <offset>, once a second and when
//	the stream asks for it                         nothing
//
// A transfer is an RDB file in one of two forms. The stream follows it:
//
//	$<length>\r\n <file>                           with repl-diskless-sync no
//	$EOF:<mark of 40 bytes>\r\n <file> <mark>      with repl-diskless-sync yes
//
// A transfer over a second connection (Valkey's dual channel, Redis 8's) requires a capability that this replica does
// not announce.
//
// # The stream
//
// The stream consists of commands as RESP arrays. An offset counts all its bytes: PSYNC requests the byte after the
// last one that was applied. A [Unit] is applied as a whole: a single command, or everything from MULTI to EXEC. The
// link itself handles PING, SELECT, MULTI, EXEC and REPLCONF.
//
// A master rewrites commands so that they have the same effect everywhere (absolute times, full ids, SREM for SPOP),
// with two exceptions. A key expires when the master sends DEL or UNLINK, and until then commands of the stream find
// it. Masters before 7.0 send relative times (EXPIRE, SET with EX), which count from the time at which they are
// applied.
//
// # Where a link continues
//
// The target stores the [State] in the same write as the effects of the units. After any end, a new link therefore
// continues with the byte after the last one applied, if the master still has it in its backlog.
//
// Sources: Redis 5.0 to 8.0 and Valkey 8.0, src/replication.c and src/rdb.c.
package redislink
