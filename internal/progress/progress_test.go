package progress

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	begin := time.Unix(1000, 0)
	b := &Bar{what: "copy", total: 100 << 20, samples: []sample{{at: begin}}}
	for _, tt := range []struct {
		at   time.Duration
		add  int64
		want string
	}{
		{0, 0, "copy  0%  0 B of 100 MiB  0 B/s"},
		{time.Second, 10 << 20, "copy  10%  10 MiB of 100 MiB  10 MiB/s  9s left"},
		{4 * time.Second, 0, "copy  10%  10 MiB of 100 MiB  2.5 MiB/s  36s left"},
		{9 * time.Second, 0, "copy  10%  10 MiB of 100 MiB  0 B/s"}, // nothing within the window
		{10 * time.Second, 90 << 20, "copy  100%  100 MiB of 100 MiB  90 MiB/s"},
	} {
		b.Add(tt.add)
		if got := b.line(begin.Add(tt.at)); got != tt.want {
			t.Errorf("after %v: %q, want %q", tt.at, got, tt.want)
		}
	}
	b = &Bar{what: "check", unit: Items, samples: []sample{{at: begin}}}
	b.Add(4200)
	b.Note("zset_score")
	if got := b.line(begin.Add(2 * time.Second)); got != "check  4.2k  2.1k/s  zset_score" {
		t.Errorf("without a total: %q", got)
	}
}

func TestAmounts(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 10 << 10: "10 KiB",
		1<<20 - 1: "1.0 MiB", 1536 << 20: "1.5 GiB"} {
		if got := Size(n); got != want {
			t.Errorf("%d bytes: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{999: "999", 1000: "1.0k", 123456: "123k", 5000000: "5.0M"} {
		if got := Count(n); got != want {
			t.Errorf("%d items: %q, want %q", n, got, want)
		}
	}
	for s, want := range map[float64]string{0.4: "0s", 59: "59s", 61: "1m01s", 3661: "1h01m"} {
		if got := duration(s); got != want {
			t.Errorf("%v seconds: %q, want %q", s, got, want)
		}
	}
}

// notify is a terminal that tells when something was written.
type notify struct {
	mu   sync.Mutex
	b    bytes.Buffer
	hear chan struct{}
}

func (n *notify) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case n.hear <- struct{}{}:
	default:
	}
	return n.b.Write(p)
}

func TestTerminal(t *testing.T) {
	w := &notify{hear: make(chan struct{}, 1)}
	b := Start(w, func() int { return 12 }, "copy", 10, Items)
	b.Add(3)
	<-w.hear
	b.Stop()
	if s := w.b.String(); !strings.HasPrefix(s, "\rcopy  30%  \x1b[K") || !strings.HasSuffix(s, "\r\x1b[K") {
		t.Errorf("%q", s)
	}
}

// Where there is no terminal, nothing is shown, and callers need not know.
func TestPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	b := Start(w, func() int { return Width(w) }, "copy", 10, Bytes)
	if b != nil {
		t.Error("a pipe counts as a terminal")
	}
	b.Add(1)
	b.SetTotal(2)
	b.Note("x")
	b.Stop()
}
