package resp

import "fmt"

// ProtocolError says that the bytes from a client are not a command. The stream cannot be followed from there on: the
// connection has to be closed after the error was sent.
type ProtocolError struct {
	// Text is what follows "-ERR " in the reply.
	Text string
}

func (e *ProtocolError) Error() string { return e.Text }

// The texts are those of Redis, which clients and their tests look for; only the last one has no counterpart there.
var (
	errInlineTooBig    = &ProtocolError{"Protocol error: too big inline request"}
	errQuotes          = &ProtocolError{"Protocol error: unbalanced quotes in request"}
	errCountTooBig     = &ProtocolError{"Protocol error: too big mbulk count string"}
	errCount           = &ProtocolError{"Protocol error: invalid multibulk length"}
	errCountUnauth     = &ProtocolError{"Protocol error: unauthenticated multibulk length"}
	errBulkCountTooBig = &ProtocolError{"Protocol error: too big bulk count string"}
	errBulk            = &ProtocolError{"Protocol error: invalid bulk length"}
	errBulkUnauth      = &ProtocolError{"Protocol error: unauthenticated bulk length"}
	errBulkEnd         = &ProtocolError{"Protocol error: expected CRLF after bulk"}
)

func errNotBulk(got byte) error {
	return &ProtocolError{fmt.Sprintf("Protocol error: expected '$', got '%s'", []byte{got})}
}
