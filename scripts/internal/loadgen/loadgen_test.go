package loadgen

import (
	"bufio"
	"context"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
)

func TestReplyEnd(t *testing.T) {
	for _, whole := range []string{
		"+OK\r\n", "-ERR no\r\n", ":-17\r\n", "$0\r\n\r\n", "$3\r\na\r\n\r\n", "$-1\r\n", "*0\r\n", "*-1\r\n",
		"*2\r\n$1\r\na\r\n:1\r\n", "*2\r\n*1\r\n+x\r\n$2\r\nab\r\n", "$12\r\n012345678901\r\n",
	} {
		for i := range len(whole) {
			if n, err := replyEnd([]byte(whole[:i])); n != 0 || err != nil {
				t.Errorf("%q, cut at %d: %d, %v", whole, i, n, err)
			}
		}
		if n, err := replyEnd([]byte(whole + ":1\r\n")); n != len(whole) || err != nil {
			t.Errorf("%q: %d, %v", whole, n, err)
		}
	}
	for _, bad := range []string{"x\r\n", "$1a\r\n", "*\r\n", "*1\r\n?\r\n"} {
		if n, err := replyEnd([]byte(bad)); err == nil {
			t.Errorf("%q: %d and no error", bad, n)
		}
	}
}

func TestHistogram(t *testing.T) {
	var h Histogram
	if h.Percentile(50) != 0 {
		t.Error("an empty histogram has a percentile")
	}
	// 1 us to 100 ms, evenly.
	const n = 100_000
	for i := 1; i <= n; i++ {
		h.Add(time.Duration(i)*time.Microsecond, 2)
	}
	if h.Total() != 2*n {
		t.Errorf("total %d", h.Total())
	}
	for _, p := range []float64{0, 0.1, 1, 50, 99, 99.9, 100} {
		want := max(p/100*n, 1) * float64(time.Microsecond)
		if got := float64(h.Percentile(p)); got < want || got > want*(1+1.0/(1<<subBits)) {
			t.Errorf("percentile %v is %v, want %v or a little more", p, got, want)
		}
	}
	for _, v := range []uint64{0, 1, 127, 128, 129, 1 << 20, 1<<20 + 1, 1<<63 - 1} {
		i := bucket(v)
		if bucketEnd(i) < v || i > 0 && bucketEnd(i-1) >= v {
			t.Errorf("%d is in bucket %d, (%d, %d]", v, i, bucketEnd(i-1), bucketEnd(i))
		}
	}
}

// TestZipf compares the frequencies of ranks with the distribution.
func TestZipf(t *testing.T) {
	const n, draws = 1000, 2_000_000
	z, r := NewZipf(n), rand.New(rand.NewPCG(1, 2))
	counts := make([]float64, n)
	for range draws {
		counts[z.Next(r)]++
	}
	share := func(from, to int) (got, want float64) {
		for i := range n {
			p := math.Pow(float64(i+1), -Theta) / z.zeta
			if from <= i && i < to {
				got, want = got+counts[i]/draws, want+p
			}
		}
		return got, want
	}
	// The method is exact for the first two ranks, and interpolates the rest.
	for _, s := range []struct {
		from, to int
		within   float64
	}{{0, 1, 0.02}, {1, 2, 0.02}, {2, 10, 0.1}, {10, 100, 0.05}, {100, 500, 0.05}, {500, 1000, 0.05}} {
		if got, want := share(s.from, s.to); math.Abs(got/want-1) > s.within {
			t.Errorf("ranks %d to %d: share %.4f, want %.4f", s.from, s.to, got, want)
		}
	}
}

func TestValues(t *testing.T) {
	if got := string(AppendDigits([]byte("k:"), 1234567)); got != "k:000001234567" {
		t.Errorf("got %q", got)
	}
	r := rand.New(rand.NewPCG(1, 2))
	a, b := AppendValue(nil, r, 7, 100), AppendValue(nil, r, 7, 100)
	if len(a) != 100 || string(a[:Digits]) != "000000000007" || string(a) == string(b) {
		t.Errorf("got %q and %q", a, b)
	}
}

// answer serves one connection after the other: answers gets the number of the request on its connection.
func answer(t *testing.T, reply func(i int) string) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for i := 0; ; i++ {
					if _, err := in.ReadString('\n'); err != nil {
						return
					}
					text := reply(i)
					if text == "" {
						return
					}
					// Halves, so that replies arrive in parts.
					io.WriteString(c, text[:len(text)/2])
					io.WriteString(c, text[len(text)/2:])
				}
			}()
		}
	}()
	return l.Addr().String()
}

// ask is a request of one line whose reply is +OK.
var ask = &Op{
	Encode: func(dst []byte, _ *rand.Rand, _ int) []byte { return append(dst, "ASK\n"...) },
	Check:  func(reply []byte, _ int) bool { return string(reply) == "+OK\r\n" },
}

func asking(*rand.Rand) (*Op, int) { return ask, 0 }

func TestRunCountsEveryReply(t *testing.T) {
	addr := answer(t, func(int) string { return "+OK\r\n" })
	for _, l := range []Load{
		{Connections: 1, Pipeline: 1, Requests: 1},
		{Connections: 5, Pipeline: 3, Requests: 1000}, // the last pipeline is a short one
		{Connections: 8, Pipeline: 16, Requests: 5},   // connections without work
	} {
		l.Addr, l.Next = addr, asking
		res, err := Run(t.Context(), l)
		require.NoError(t, err)
		sum := int64(0)
		for _, n := range res.PerSecond {
			sum += n
		}
		if res.Requests != l.Requests || res.Latency.Total() != l.Requests || sum != l.Requests || res.Elapsed <= 0 {
			t.Errorf("%d requests, %d latencies, %d a second, want %d", res.Requests, res.Latency.Total(), sum, l.Requests)
		}
	}
}

// TestRunTakesLongRequestsAndReplies: neither fits the buffers of a socket.
func TestRunTakesLongRequestsAndReplies(t *testing.T) {
	const size = 20 << 20
	addr := answer(t, func(int) string { return "$20971520\r\n" + strings.Repeat("x", size) + "\r\n" })
	op := &Op{
		Encode: func(dst []byte, _ *rand.Rand, _ int) []byte {
			return append(append(dst, slices.Repeat([]byte("y"), size)...), '\n')
		},
		Check: func(reply []byte, _ int) bool { return len(reply) > size },
	}
	res, err := Run(t.Context(), Load{Addr: addr, Connections: 2, Pipeline: 1, Requests: 4,
		Next: func(*rand.Rand) (*Op, int) { return op, 0 }})
	if err != nil || res.Requests != 4 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestRunEnds(t *testing.T) {
	addr := answer(t, func(int) string { return "+OK\r\n" })
	short := Load{Addr: addr, Connections: 2, Pipeline: 2, Duration: time.Millisecond, Next: asking}
	if res, err := Run(t.Context(), short); err != nil || res.Elapsed < short.Duration {
		t.Errorf("with a duration: %+v, %v", res, err)
	}
	end := make(chan struct{})
	close(end)
	if _, err := Run(t.Context(), Load{Addr: addr, Connections: 2, Pipeline: 2, End: end, Next: asking}); err != nil {
		t.Errorf("with an end: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Load{Addr: addr, Connections: 2, Pipeline: 2, Next: asking}); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
}

func TestRunRefusesWrongReplies(t *testing.T) {
	for name, want := range map[string]string{
		"-ERR full\r\n":    "ERR full",
		"+NO\r\n":          "+NO",
		"?\r\n":            "not a reply",
		"+OK\r\n+MORE\r\n": "to no request",
		"":                 "closed",
	} {
		addr := answer(t, func(i int) string {
			if i < 3 {
				return "+OK\r\n"
			}
			return name
		})
		_, err := Run(t.Context(), Load{Addr: addr, Connections: 1, Pipeline: 1, Next: asking})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", name, err, want)
		}
	}
}
