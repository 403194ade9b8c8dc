package redislink

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/internal/crc64"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// target is a database that notes what happens to it.
type target struct {
	mu    sync.Mutex
	state State
	has   bool
	log   []string
	fail  map[string]error // by the name of the command, or "load", "add", "end", "state", "keep"
	slow  time.Duration    // of loads
}

func (t *target) note(format string, args ...any) {
	t.log = append(t.log, fmt.Sprintf(format, args...))
}

func (t *target) State() (State, bool, error) { return t.state, t.has, t.fail["state"] }

func (t *target) Apply(commands []Command, after State) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range commands {
		if err := t.fail[c.Name()]; err != nil {
			return err
		}
	}
	for _, c := range commands {
		t.note("%s", show([]Command{c}))
	}
	t.state, t.has = after, true
	return nil
}

func (t *target) Keep(s State) error {
	if err := t.fail["keep"]; err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.state, t.has = s, true
	t.note("keep")
	return nil
}

func (t *target) Load() (Loader, error) {
	t.note("load")
	return &loader{t: t}, t.fail["load"]
}

type loader struct {
	t    *target
	log  []string
	done bool
}

func (l *loader) Add(i *rdb.Item) error {
	if i.Function != nil {
		l.log = append(l.log, fmt.Sprintf("function %s", i.Function))
	} else {
		l.log = append(l.log, fmt.Sprintf("%d:%s=%s", i.DB, i.Key, i.Value.String))
	}
	return l.t.fail["add"]
}

func (l *loader) Script(source []byte) error {
	l.log = append(l.log, "script "+string(source))
	return nil
}

func (l *loader) End(s State) error {
	time.Sleep(l.t.slow)
	if err := l.t.fail["end"]; err != nil {
		return err
	}
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	l.t.log = append(l.t.log, l.log...)
	l.t.state, l.t.has, l.done = s, true, true
	l.t.note("loaded")
	return nil
}

func (l *loader) Abort() {
	if !l.done {
		l.t.note("aborted")
	}
}

// options are those of a link over a connection.
func options(c net.Conn, t *target) Options {
	offset := new(atomic.Int64)
	return Options{
		Conn: c, In: bufio.NewReader(c), Log: zap.NewNop(), Port: 7999, Target: t, MaxValue: 1 << 20,
		Silence: time.Minute, AckEvery: time.Second,
		Step: func(Step) {}, Loaded: func() {}, Heard: func() {}, Transfer: func(int64) {}, Received: func(int) {},
		Offset: offset, Applied: offset.Load,
	}
}

// rdbFile is an RDB file of strings, an auxiliary field, a script and a library.
func rdbFile(keys ...string) string {
	str := func(s string) string { return string(rune(len(s))) + s } // up to 63 bytes
	b := "REDIS0011\xfa" + str("redis-ver") + str("7.2.6") + "\xfa" + str("repl-stream-db") + str("2") +
		"\xf5" + str("#!lua name=l") + "\xfe\x00"
	for _, k := range keys {
		b += "\x00" + str(k) + str("v")
	}
	b += "\xfa" + str("lua") + str("return 1") + "\xff"
	return b + string(binary.LittleEndian.AppendUint64(nil, crc64.Update(0, []byte(b))))
}

const (
	hello   = "+PONG\r\n+OK\r\n+OK\r\n"
	mark    = "0000111122223333444455556666777788889999"
	otherID = "89abcdef0123456789abcdef0123456789abcdef"
)

func sized(file string) string  { return fmt.Sprintf("$%d\r\n%s", len(file), file) }
func marked(file string) string { return "$EOF:" + mark + "\r\n" + file + mark }

// pause is where a master waits until the link has read everything, as behind a diskless transfer.
const pause = "(pause)"

// introduction is what the link sends before PSYNC.
var introduction = script("PING\nREPLCONF listening-port 7999\nREPLCONF capa eof capa psync2")

// play lets a master send what it has to say, in pieces, and end the connection. It returns how the link has ended and
// what it has sent, without empty lines.
func play(t *testing.T, tg *target, says string, step int) (sent string, err error) {
	ours, theirs := net.Pipe()
	got := make(chan string)
	go func() {
		b, _ := io.ReadAll(theirs)
		got <- string(b)
	}()
	go func() {
		defer theirs.Close()
		for part := range strings.SplitSeq(says, pause) {
			for len(part) > 0 {
				n, err := io.WriteString(theirs, part[:min(step, len(part))])
				if part = part[n:]; err != nil {
					return
				}
			}
			synctest.Wait() // the link has done what it can with it
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = Run(ctx, options(ours, tg))
	ours.Close()
	return strings.ReplaceAll(strings.ReplaceAll(<-got, "\r\n", "\r"), "\n", ""), err
}

// lines is a request as play returns it.
func lines(s string) string { return strings.ReplaceAll(s, "\r\n", "\r") }

var errTest = errors.New("test")

// TestLink: what the link does with what a master says, in one piece and byte by byte.
func TestLink(t *testing.T) {
	fresh := func() *target { return &target{} }
	at := func() *target { return &target{state: State{testID, 100, 1}, has: true} }
	full := "+FULLRESYNC " + testID + " 1000\r\n"
	loaded := []string{"load", "function #!lua name=l", "0:a=v", "0:b=v", "script return 1", "loaded"}
	psync := func(id, next string) string { return introduction + script("PSYNC "+id+" "+next) }
	ack := func(n int) string { return script(fmt.Sprintf("REPLCONF ACK %d", n)) }
	failing := func(tg *target, what string) *target {
		tg.fail = map[string]error{what: errTest}
		return tg
	}
	for _, tt := range []struct {
		name   string
		target *target
		says   string
		sent   string
		log    []string
		state  State
		err    string // a part of the error
		final  bool   // it is Refused
	}{
		{"full, of known size", fresh(), hello + full + sized(rdbFile("a", "b")) + script("SET c 1"),
			psync("?", "-1") + ack(1000), append(slices.Clone(loaded), "2:SET c 1"), State{testID, 1027, 2}, "EOF", false},
		{"full, diskless", fresh(), hello + full + marked(rdbFile("a", "b")),
			psync("?", "-1") + ack(1000), loaded, State{testID, 1000, 2}, "EOF", false},
		{"keepalives before everything that may come late", fresh(),
			hello + "\n\n" + full + "\n\n\n" + sized(rdbFile("a", "b")),
			psync("?", "-1") + ack(1000), loaded, State{testID, 1000, 2}, "EOF", false},
		{"full, where a partial one was asked for", at(), hello + full + marked(rdbFile("a", "b")),
			psync(testID, "101") + ack(1000), loaded, State{testID, 1000, 2}, "EOF", false},
		{"partial", at(), hello + "+CONTINUE\r\n" + script("SET c 1\nSELECT 0\nSET d 1"),
			psync(testID, "101"), []string{"1:SET c 1", "0:SET d 1"}, State{testID, 177, 0}, "EOF", false},
		{"partial, of the same id", at(), hello + "+CONTINUE " + testID + "\r\n", psync(testID, "101"), nil,
			State{testID, 100, 1}, "EOF", false},
		{"partial, with another id", at(), hello + "+CONTINUE " + otherID + "\r\n" + script("SET c 1"),
			psync(testID, "101"), []string{"keep", "1:SET c 1"}, State{otherID, 127, 1}, "EOF", false},
		{"GETACK", at(), hello + "+CONTINUE\r\n" + script("SET c 1\nREPLCONF GETACK *\nPING"),
			psync(testID, "101") + ack(164), []string{"1:SET c 1", "keep"}, State{testID, 178, 1}, "EOF", false},
		{"a transaction that is cut leaves no trace", at(), hello + "+CONTINUE\r\n" + script("SET c 1\nMULTI\nSET d 1"),
			psync(testID, "101"), []string{"1:SET c 1"}, State{testID, 127, 1}, "EOF", false},
		{"errors of REPLCONF do not matter", at(), "+PONG\r\n-ERR no\r\n-ERR no\r\n+CONTINUE\r\n",
			psync(testID, "101"), nil, State{testID, 100, 1}, "EOF", false},
		{"CONTINUE that was not asked for", fresh(), hello + "+CONTINUE\r\n", psync("?", "-1"), nil, State{},
			"CONTINUE", true},
		{"another id that is none", at(), hello + "+CONTINUE x\r\n", psync(testID, "101"), nil,
			State{testID, 100, 1}, "CONTINUE x", true},
		{"the master wants a password", at(), "-NOAUTH Authentication required.\r\n",
			script("PING"), nil, State{testID, 100, 1}, "NOAUTH", true},
		{"the master loads", at(), "-LOADING Redis is loading\r\n+OK\r\n+OK\r\n-LOADING Redis is loading\r\n",
			psync(testID, "101"), nil, State{testID, 100, 1}, "LOADING", false},
		{"the master has no master", at(), hello + "-NOMASTERLINK Can't SYNC while not connected with my master\r\n",
			psync(testID, "101"), nil, State{testID, 100, 1}, "NOMASTERLINK", false},
		{"no PSYNC", at(), hello + "-ERR unknown command\r\n", psync(testID, "101"), nil, State{testID, 100, 1},
			"unknown command", true},
		{"garbage for PSYNC", at(), hello + "hello\r\n", psync(testID, "101"), nil, State{testID, 100, 1},
			"not understood", true},
		{"FULLRESYNC without an offset", fresh(), hello + "+FULLRESYNC " + testID + "\r\n", psync("?", "-1"), nil,
			State{}, "not understood", true},
		{"FULLRESYNC of a strange id", fresh(), hello + "+FULLRESYNC x 1\r\n", psync("?", "-1"), nil,
			State{}, "not understood", true},
		{"the copy fails", at(), hello + full + "-ERR fork\r\n", psync(testID, "101"), nil, State{testID, 100, 1},
			"fork", false},
		{"garbage for a transfer", at(), hello + full + "*1\r\n", psync(testID, "101"), nil, State{testID, 100, 1},
			"not understood", true},
		{"a length that is none", at(), hello + full + "$-1\r\n", psync(testID, "101"), nil, State{testID, 100, 1},
			"not understood", true},
		{"a short mark", at(), hello + full + "$EOF:12\r\n", psync(testID, "101"), nil, State{testID, 100, 1},
			"mark", true},
		{"a transfer that is cut", at(), hello + full + sized(rdbFile("a", "b"))[:60], psync(testID, "101"),
			[]string{"load", "aborted"}, State{testID, 100, 1}, "ended the connection", false},
		{"a diskless one", at(), hello + full + marked(rdbFile("a", "b"))[:160], psync(testID, "101"),
			[]string{"load", "aborted"}, State{testID, 100, 1}, "ended the connection", false},
		{"a file that is none", at(), hello + full + sized("RADISH0011"), psync(testID, "101"),
			[]string{"load", "aborted"}, State{testID, 100, 1}, "not an RDB file", true},
		{"a wrong checksum", at(), hello + full + sized(strings.Replace(rdbFile("a"), "\x01a", "\x01x", 1)),
			psync(testID, "101"), []string{"load", "aborted"}, State{testID, 100, 1}, "checksum", true},
		{"something behind the file", at(), hello + full + marked(rdbFile("a")+"x"),
			psync(testID, "101"), []string{"load", "aborted"}, State{testID, 100, 1}, "follows the end", true},
		{"an unknown state", failing(fresh(), "state"), hello, introduction, nil, State{}, "test", true},
		{"no load", failing(at(), "load"), hello + full + sized(rdbFile("a")), psync(testID, "101"), []string{"load"},
			State{testID, 100, 1}, "test", true},
		{"a key that cannot be added", failing(at(), "add"), hello + full + sized(rdbFile("a")), psync(testID, "101"),
			[]string{"load", "aborted"}, State{testID, 100, 1}, "test", true},
		{"no replacement", failing(at(), "end"), hello + full + sized(rdbFile("a")), psync(testID, "101"),
			[]string{"load", "aborted"}, State{testID, 100, 1}, "test", true},
		{"a command that fails: what is before it has happened, nothing behind it",
			failing(at(), "BAD"), hello + "+CONTINUE\r\n" + script("SET a 1\nSET b 1\nBAD c\nSELECT 2\nSET d 1"),
			psync(testID, "101"), []string{"1:SET a 1", "1:SET b 1"}, State{testID, 154, 1}, "test", true},
		{"a transaction of which a command fails", failing(at(), "BAD"),
			hello + "+CONTINUE\r\n" + script("SET a 1\nMULTI\nSET b 1\nBAD c\nEXEC"),
			psync(testID, "101"), []string{"1:SET a 1"}, State{testID, 127, 1}, "test", true},
		{"garbage in the stream", at(), hello + "+CONTINUE\r\n" + script("SET a 1") + "garbage\r\n",
			psync(testID, "101"), []string{"1:SET a 1"}, State{testID, 127, 1}, "not understood", true},
	} {
		for _, step := range []int{1 << 20, 1} {
			synctest.Test(t, func(t *testing.T) {
				tg := &target{state: tt.target.state, has: tt.target.has, fail: tt.target.fail}
				sent, err := play(t, tg, tt.says, step)
				if err == nil || !strings.Contains(err.Error(), tt.err) || errors.As(err, new(proto.Refused)) != tt.final {
					t.Errorf("%s: the error is %v, want %q, final %v", tt.name, err, tt.err, tt.final)
				}
				if sent != lines(tt.sent) && !(step == 1 && strings.HasPrefix(lines(tt.sent), sent)) {
					t.Errorf("%s: the link sent\n%q, want\n%q", tt.name, sent, lines(tt.sent))
				}
				if !slices.Equal(tg.log, tt.log) {
					t.Errorf("%s: happened %q, want %q", tt.name, tg.log, tt.log)
				}
				if tg.state != tt.state {
					t.Errorf("%s: ends at %+v, want %+v", tt.name, tg.state, tt.state)
				}
			})
		}
	}
}

// TestCuts: a connection that ends after any byte leaves the target where it was or, whole, behind the last unit that
// has come.
func TestCuts(t *testing.T) {
	full := hello + "\n+FULLRESYNC " + testID + " 1000\r\n"
	stream := script("SELECT 0\nSET c 1\nMULTI\nSET d 1\nEXEC")
	for _, transfer := range []string{sized(rdbFile("a")), marked(rdbFile("a"))} {
		says := full + transfer + stream
		end := len(full) + len(transfer)
		for n := range len(says) + 1 {
			synctest.Test(t, func(t *testing.T) {
				tg := &target{}
				_, err := play(t, tg, says[:min(n, end)]+pause+says[min(n, end):n], 1<<20)
				if err == nil || errors.As(err, new(proto.Refused)) {
					t.Fatalf("after %d bytes of %d: %v", n, len(says), err)
				}
				want := ""
				for _, step := range []struct {
					at int
					is string
				}{
					{len(full) + strings.Index(transfer, "\n") + 1, "load aborted"},
					{end, "load function #!lua name=l 0:a=v script return 1 loaded"},
					{len(says) - len(script("MULTI\nSET d 1\nEXEC")), "0:SET c 1"},
					{len(says), "0:SET d 1"},
				} {
					if n >= step.at && strings.HasPrefix(step.is, "load") {
						want = step.is
					} else if n >= step.at {
						want += " " + step.is
					}
				}
				got := slices.DeleteFunc(tg.log, func(s string) bool { return s == "keep" })
				if strings.Join(got, " ") != want {
					t.Fatalf("after %d bytes of %d: %q, want %q", n, len(says), got, want)
				}
			})
		}
	}
}

// TestAcks: the link acknowledges once a second, sends empty lines while it loads, and gives a silent master up.
func TestAcks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		tg := &target{slow: 3500 * time.Millisecond}
		ended := make(chan error, 1)
		go func() { ended <- Run(t.Context(), options(ours, tg)) }()
		in := bufio.NewReader(theirs)
		expect := func(want string) {
			t.Helper()
			got := make([]byte, len(want))
			if n, err := io.ReadFull(in, got); err != nil || string(got) != want {
				t.Fatalf("the link sent %q, %v; want %q", got[:n], err, want)
			}
		}
		say := func(s string) {
			t.Helper()
			if _, err := io.WriteString(theirs, s); err != nil {
				t.Fatal(err)
			}
		}
		expect(script("PING"))
		say("+PONG\r\n")
		expect(script("REPLCONF listening-port 7999"))
		say("+OK\r\n")
		expect(script("REPLCONF capa eof capa psync2"))
		say("+OK\r\n")
		expect(script("PSYNC ? -1"))
		say("+FULLRESYNC " + testID + " 1000\r\n" + marked(rdbFile("a")))
		began := time.Now()
		for n := 1; n <= 3; n++ {
			expect("\n")
			if took := time.Since(began); took != time.Duration(n)*time.Second {
				t.Errorf("empty line %d comes after %v", n, took)
			}
		}
		expect(script("REPLCONF ACK 1000"))
		if took := time.Since(began); took != tg.slow {
			t.Errorf("the load is acknowledged after %v", took)
		}
		say(script("SET a 1"))
		expect(script("REPLCONF ACK 1027"))
		if took := time.Since(began); took != tg.slow+time.Second {
			t.Errorf("the next one comes after %v", took)
		}
		go io.Copy(io.Discard, in)
		heard := time.Now().Add(-time.Second)
		if err := <-ended; err == nil || !strings.Contains(err.Error(), "silent") || time.Since(heard) != time.Minute {
			t.Errorf("a silent master is given up after %v: %v", time.Since(heard), err)
		}
		ours.Close()
	})
}

// TestMark: however the bytes come, the reader finds the end, also where a part of the mark is in the file.
func TestMark(t *testing.T) {
	for _, file := range []string{"", "x", mark[1:], mark[:39], mark[:20] + mark[:39], strings.Repeat("y", 200)} {
		for step := 1; step < 60; step++ {
			stream := []byte(file + mark)
			r := transfer{-1, mark}.reader(readerFunc(func(b []byte) (int, error) {
				n := copy(b, stream[:min(step, len(stream))])
				if stream = stream[n:]; n == 0 {
					return 0, errTest // it must not ask for more
				}
				return n, nil
			}))
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, []byte(file)) {
				t.Fatalf("%q in pieces of %d: %q, %v", file, step, got, err)
			}
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
