package lineconn

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/server/replication/proto"
)

// answering returns a connection whose other end sends an answer to everything it reads.
func answering(t *testing.T, ctx context.Context, answer string) (c *Conn, came *int64) {
	ours, theirs := net.Pipe()
	came = new(int64)
	c = New(ctx, ours, func(n int64) { *came += n })
	t.Cleanup(func() { c.Close() })
	go func() {
		defer theirs.Close()
		theirs.Read(make([]byte, 1000))
		io.WriteString(theirs, answer)
	}()
	return c, came
}

func TestAsk(t *testing.T) {
	for _, tt := range []struct {
		answer, want string
		err          error
	}{
		{"+OK\r\n", "+OK", nil},
		{"a\nb\r\n", "a\nb", nil},
		{"\r\n", "", nil},
		{strings.Repeat("x", 100_000) + "\r\n", strings.Repeat("x", 100_000), nil},
		{strings.Repeat("x", 100_001) + "\r\n", "", proto.ErrLineLength},
		{"+O", "", io.EOF},
	} {
		c, came := answering(t, t.Context(), tt.answer)
		line, err := c.Ask([]byte("PING"), 100_000, time.Minute)
		if !errors.Is(err, tt.err) || err == nil && (string(line) != tt.want || *came != int64(len(tt.answer))) {
			t.Errorf("%.20q: %.20q, %v, %d bytes", tt.answer, line, err, *came)
		}
	}
}

// TestAuth: a rejected password is not an error of the connection.
func TestAuth(t *testing.T) {
	c, _ := answering(t, t.Context(), "-ERR invalid password\r\n")
	if err := c.Auth("", "", time.Minute); err != nil {
		t.Errorf("without a password: %v", err)
	}
	if err := c.Auth("", "wrong", time.Minute); !errors.As(err, new(proto.Refused)) {
		t.Error(err)
	}
	c, _ = answering(t, t.Context(), "")
	if err := c.Auth("", "right", time.Minute); !errors.Is(err, io.EOF) || errors.As(err, new(proto.Refused)) {
		t.Error(err)
	}
}

// TestContext: the connection is closed with its context.
func TestContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ours, theirs := net.Pipe()
	c := New(ctx, ours, nil)
	cancel()
	if _, err := theirs.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
	c.Close()
}

// TestCopyN: buffered bytes come first, and all bytes are counted.
func TestCopyN(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, came := answering(t, t.Context(), "9\r\nabcdefghijk\r\n")
	if line, err := c.Ask([]byte("x"), 10, time.Minute); string(line) != "9" {
		t.Fatal(line, err)
	}
	for left := int64(9); left > 0; {
		n, err := c.CopyN(file, min(left, 4))
		if err != nil || n == 0 {
			t.Fatal(n, err)
		}
		left -= n
	}
	file.Seek(0, io.SeekStart)
	if line, _ := bufio.NewReader(file).ReadString(0); line != "abcdefghi" {
		t.Errorf("%q", line)
	}
	if line, err := c.Line(10); string(line) != "jk" || *came != 16 {
		t.Errorf("%q, %v, %d bytes", line, err, *came)
	}
}

// TestStream: frames of any length come out as they went in, however they are cut, up to the end of the connection.
func TestStream(t *testing.T) {
	var sent []string
	var bytes []byte
	for _, size := range []int{12, 13, 300_000, 12, 64 << 10, 5 << 20, 12, 100} {
		sent = append(sent, strings.Repeat(string(rune('a'+len(sent))), size))
		bytes = proto.AppendFrame(bytes, sent[len(sent)-1])
	}
	for _, piece := range []int{1 << 10, 100_000, len(bytes)} {
		ours, theirs := net.Pipe()
		go func() {
			for part := range slices.Chunk(bytes, piece) {
				theirs.Write(part)
			}
			theirs.Close()
		}()
		s := Stream{Conn: New(t.Context(), ours, nil)}
		var got []string
		var err error
		for err == nil {
			f, ok, e := s.Frame()
			switch {
			case e != nil:
				t.Fatal(e)
			case ok:
				got = append(got, string(f.Payload))
			default:
				err = s.Fill(time.Minute)
			}
		}
		if !slices.Equal(got, sent) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("in pieces of %d bytes: %d frames of %d, %v", piece, len(got), len(sent), err)
		}
		s.Close()
	}
}
