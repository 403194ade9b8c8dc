// Package redislink is the replica's side of Redis's replication, as Redis 5 to 8 and Valkey speak it: the handshake,
// the full synchronisation, the stream of commands. It knows no database: what the master sends goes to a [Target],
// over a connection that the caller has made.
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
// A transfer is an RDB file in one of two forms, which nothing follows but the stream:
//
//	$<length>\r\n <file>                           with repl-diskless-sync no
//	$EOF:<mark of 40 bytes>\r\n <file> <mark>      with repl-diskless-sync yes
//
// The forms of one more connection for the transfer (Valkey's dual channel, Redis 8's) are for replicas that say that
// they can; this one does not.
//
// # The stream
//
// It consists of commands as RESP arrays. An offset counts its bytes, all of them: PSYNC asks for the byte after the
// last one that was applied. What is applied at once is a [Unit]: a command, or all from MULTI to EXEC. PING, SELECT,
// MULTI, EXEC and REPLCONF are the link's own.
//
// The master's commands are made so that they do the same everywhere (absolute times, full ids, SREM for SPOP). Two
// things are not: keys expire when the master says so, by DEL or UNLINK, and until then commands of the stream find
// them; and masters before 7.0 send relative times (EXPIRE, SET with EX), which count from when they are applied.
//
// # Where it goes on
//
// The [State] is kept by the target in the same write as the effects of the units, so that after whatever end the
// link goes on with the byte after the last one applied, if the master still has it in its backlog.
//
// Sources: Redis 5.0 to 8.0 and Valkey 8.0, src/replication.c and src/rdb.c.
package redislink
