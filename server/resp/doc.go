// Package resp is the Redis serialization protocol, versions 2 and 3: Decoder
// reads commands from bytes that clients sent, Writer builds replies. Neither
// touches a socket.
//
// The format is described at https://redis.io/docs/latest/develop/reference/protocol-spec/.
package resp
