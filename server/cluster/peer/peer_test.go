package peer

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
)

// TestDo: after an error reply the connection is usable, after an invalid reply it is not.
func TestDo(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	replies := []string{"+OK\r\n", "-ERR no\r\n", "$2\r\n12\r\n", "?\r\n", "+OK\r\n"}
	go func() {
		in := bufio.NewReader(theirs)
		for _, reply := range replies {
			for range 3 { // *1, $4, PING
				if _, err := in.ReadString('\n'); err != nil {
					return
				}
			}
			io.WriteString(theirs, reply)
		}
	}()
	p := New(context.Background(), ours)
	defer p.Close()
	const invalid = "the destination has sent an invalid reply"
	for i, want := range []string{"OK", "the destination has answered: ERR no", "12", invalid, invalid} {
		rep, err := p.Do("PING")
		got := string(rep.Text)
		if err != nil {
			got = err.Error()
		}
		if got != want || IsReply(err) != (i == 1) || p.Broken() != (i >= 3) || p.Idle() != (i < 3) {
			t.Errorf("%d: %q, %v, want %q", i, got, err, want)
		}
	}
}
