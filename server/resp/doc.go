// Package resp is the Redis serialization protocol, versions 2 and 3: Decoder reads commands from bytes that clients
// sent, Writer builds replies. Conn, AppendCommand and ReadReply are for clients of other servers.
//
// The format is described at https://redis.io/docs/latest/develop/reference/protocol-spec/.
package resp
