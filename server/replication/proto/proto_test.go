package proto_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/server/replication/proto"
)

const maxFrame = 1 << 20

// TestRecordedRequests: requests are byte by byte those of a Kvrocks replica, and can be parsed.
func TestRecordedRequests(t *testing.T) {
	r := fixture.LoadReplication(t, fixture.PlainReplication)
	sent := func(name string) string {
		t.Helper()
		s, ok := r.Step(name)
		if !ok {
			t.Fatalf("the recording has no step %q", name)
		}
		return string(s.Sent)
	}
	for _, tt := range []struct {
		step string
		made []byte
	}{
		{"_db_name", proto.AppendDBName(nil)},
		{"replconf", proto.AppendConf(nil, proto.Conf{Port: 7999})},
		{"psync 1", proto.AppendPSync(nil, proto.PSync{Next: 1})},
		{"PSYNC 999999", proto.AppendPSync(nil, proto.PSync{Next: 999999})},
		{"PSYNC 0123456789ABCDEF 1", proto.AppendPSync(nil, proto.PSync{ID: "0123456789ABCDEF", Next: 1})},
		{"PSYNC short 1", proto.AppendPSync(nil, proto.PSync{ID: "short", Next: 1})},
	} {
		if want := sent(tt.step); string(tt.made) != want {
			t.Errorf("%s: made %q, recorded %q", tt.step, tt.made, want)
		}
	}
}

// TestRecordedAnswers: the recorded replies of a master are parsed, and appended again byte by byte.
func TestRecordedAnswers(t *testing.T) {
	for _, name := range []string{fixture.PlainReplication, fixture.RSIDReplication} {
		r := fixture.LoadReplication(t, name)
		for _, s := range r.Transcript {
			line, n, err := proto.ReadLine(s.Received, proto.MaxLine)
			if err != nil || n == 0 {
				t.Fatalf("%s: the first line: %d bytes, %v", s.Name, n, err)
			}
			switch {
			case s.Name == "_db_name":
				if db, err := proto.ParseName(line); err != nil || !bytes.Equal(proto.AppendName(nil, db), s.Received) {
					t.Errorf("%s: %q, %v", s.Name, db, err)
				}
			case s.Name == "_fetch_meta":
				files, err := proto.ParseFileList(line)
				if err != nil || len(files) != 4 || !bytes.Equal(proto.AppendFileList(nil, files), s.Received) {
					t.Errorf("%s: %q, %v", s.Name, files, err)
				}
			case strings.HasPrefix(s.Name, "_fetch_file"):
				checkFiles(t, s.Received)
			case line[0] == '+':
				if err := proto.CheckOK(line); err != nil {
					t.Errorf("%s: %v", s.Name, err)
				}
				checkStream(t, s.Received[n:])
			default:
				err := proto.CheckOK(line)
				var e proto.ReplyError
				if !errors.As(err, &e) || e.Loading() {
					t.Errorf("%s: %v", s.Name, err)
				}
				text, _ := strings.CutPrefix(string(e), "ERR ")
				if again := proto.AppendError(nil, proto.Error(text)); !bytes.Equal(again, s.Received) {
					t.Errorf("%s: %q is made %q", s.Name, s.Received, again)
				}
			}
		}
	}
}

// checkStream parses a stream whose batches follow each other without a gap, and appends it again.
func checkStream(t *testing.T, stream []byte) {
	t.Helper()
	var again []byte
	next := uint64(1)
	for rest := stream; len(rest) > 0; {
		f, n, _, err := proto.ReadFrame(rest, maxFrame)
		if n == 0 || err != nil {
			t.Fatalf("at byte %d: %d bytes, %v", len(stream)-len(rest), n, err)
		}
		rest = rest[n:]
		again = proto.AppendFrame(again, f.Payload)
		if f.Kind == proto.KindBatch {
			if f.Sequence() != next {
				t.Fatalf("a batch has sequence %d, want %d", f.Sequence(), next)
			}
			next += uint64(f.Count())
		}
	}
	if !bytes.Equal(again, stream) {
		t.Error("the stream is made differently")
	}
}

func checkFiles(t *testing.T, content []byte) {
	t.Helper()
	for _, name := range []string{"MANIFEST", "CURRENT"} {
		line, n, err := proto.ReadLine(content, proto.MaxLine)
		if err != nil {
			t.Fatal(err)
		}
		size, err := proto.ParseFileHead(line)
		if err != nil || !bytes.Equal(proto.AppendFileHead(nil, size), content[:n]) || int(size) > len(content)-n {
			t.Fatalf("%s: size %d, %v", name, size, err)
		}
		content = content[n+int(size):]
	}
	if len(content) > 0 {
		t.Errorf("%d bytes are left", len(content))
	}
}

// TestFramesInPieces: the size requested for an incomplete frame is never too large.
func TestFramesInPieces(t *testing.T) {
	var stream []byte
	payloads := []string{proto.Ping, "_time 1700000000000", strings.Repeat("b", 12), strings.Repeat("long", 5000),
		proto.GetAck}
	for _, p := range payloads {
		stream = proto.AppendFrame(stream, p)
	}
	var got []string
	for begin, end := 0, 0; begin < len(stream); {
		f, n, need, err := proto.ReadFrame(stream[begin:end], maxFrame)
		switch {
		case err != nil:
			t.Fatal(err)
		case n > 0:
			got = append(got, string(f.Payload))
			begin += n
		case need <= end-begin || begin+need > len(stream):
			t.Fatalf("%d bytes of %d are there and %d are needed", end-begin, len(stream)-begin, need)
		default:
			end++
		}
	}
	if !slices.Equal(got, payloads) {
		t.Errorf("got %.60q", got)
	}
}

func TestTime(t *testing.T) {
	f, n, _, err := proto.ReadFrame(proto.AppendTime(nil, 1700000000123), maxFrame)
	if n == 0 || err != nil || f.Kind != proto.KindTime || f.Time() != 1700000000123 {
		t.Errorf("%+v, %d, %v", f, n, err)
	}
}

// TestEnd: a line in place of a frame is the reason why the stream ends, as soon as it is complete.
func TestEnd(t *testing.T) {
	line := proto.AppendEnd(nil, "it is too far behind")
	for i := range len(line) {
		if f, n, need, err := proto.ReadFrame(line[:i], maxFrame); n != 0 || need <= i || err != nil {
			t.Errorf("%q: %+v, %d, %d, %v", line[:i], f, n, need, err)
		}
	}
	_, _, _, err := proto.ReadFrame(line, maxFrame)
	if end, ok := errors.AsType[proto.EndError](err); !ok || end != "ERR it is too far behind" {
		t.Errorf("%q: %v", line, err)
	}
	if _, _, _, err := proto.ReadFrame(bytes.Repeat([]byte("-"), 5000), maxFrame); err == nil {
		t.Error("a line without end is read on and on")
	}
}

func TestBadFrames(t *testing.T) {
	for in, want := range map[string]error{
		"+OK\r\n":                      proto.ErrFrame,
		"-ERR\r\n":                     proto.ErrFrame,
		"x":                            proto.ErrFrame,
		"$0\r\n\r\n":                   proto.ErrFrame, // Kvrocks closes the link for it
		"$-1\r\n":                      proto.ErrFrame,
		"$\r\n":                        proto.ErrFrame,
		"$4\r\npong\r\n":               proto.ErrFrame,
		"$4\r\npingXX":                 proto.ErrFrame,
		"$12\r\n_time 12345x\r\n":      proto.ErrFrame,
		"$9999999\r\n":                 proto.ErrFrameLength,
		"$99999999999999999999999\r\n": proto.ErrFrame,
		"$9999999999999999999\r\n":     proto.ErrFrame, // more than an int64 holds
		strings.Repeat("$", 40):        proto.ErrFrame,
	} {
		if _, n, _, err := proto.ReadFrame([]byte(in), maxFrame); !errors.Is(err, want) || n != 0 {
			t.Errorf("%.40q: %d, %v, want %v", in, n, err, want)
		}
	}
}

func args(words ...string) (out [][]byte) {
	for _, w := range words {
		out = append(out, []byte(w))
	}
	return out
}

func TestParsePSync(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want proto.PSync
		err  error
	}{
		{[]string{"7"}, proto.PSync{Next: 7}, nil},
		{[]string{"0123456789ABCDEF", "7"}, proto.PSync{ID: "0123456789ABCDEF", Next: 7}, nil},
		{[]string{"short", "7"}, proto.PSync{}, proto.ErrIDLength},
		{[]string{"short", "x"}, proto.PSync{}, proto.ErrSequence},
		{[]string{"?", "-1"}, proto.PSync{}, proto.ErrRedis},
		{[]string{strings.Repeat("a", 40), "7"}, proto.PSync{}, proto.ErrRedis},
		{[]string{"18446744073709551616"}, proto.PSync{}, proto.ErrSequence},
		{nil, proto.PSync{}, proto.ErrArguments},
		{[]string{"a", "b", "c"}, proto.PSync{}, proto.ErrArguments},
	} {
		if got, err := proto.ParsePSync(args(tt.args...)); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%q: %+v, %v", tt.args, got, err)
		}
	}
}

func TestParseConf(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want proto.Conf
		err  error
	}{
		{[]string{"listening-port", "7999"}, proto.Conf{Port: 7999}, nil},
		{[]string{"Listening-Port", "7999", "IP-address", "host"}, proto.Conf{Port: 7999, Address: "host"}, nil},
		{[]string{"capa", "ack"}, proto.Conf{Ack: true}, nil},
		{[]string{"capa", "eof", "capa", "psync2"}, proto.Conf{EOF: true}, nil},
		{[]string{"rdb-only", "1"}, proto.Conf{RDBOnly: true}, nil},
		{[]string{"rdb-only", "1", "rdb-only", "0"}, proto.Conf{}, nil},
		{[]string{"rdb-only", "2"}, proto.Conf{}, proto.ErrNotFlag},
		{[]string{"rdb-only", ""}, proto.Conf{}, proto.ErrNotInteger},
		{[]string{"rdb-filter-only", ""}, proto.Conf{NoKeys: true, NoLibraries: true}, nil},
		{[]string{"rdb-filter-only", " Functions"}, proto.Conf{NoKeys: true}, nil},
		{[]string{"rdb-only", "1", "rdb-filter-only", "functions keys"}, proto.Conf{},
			proto.Error("Unsupported rdb-filter-only option: keys")},
		{[]string{"listening-port", "0"}, proto.Conf{}, proto.ErrPort},
		{[]string{"listening-port", "x"}, proto.Conf{}, proto.ErrPort},
		{[]string{"ip-address", ""}, proto.Conf{}, proto.ErrAddress},
		{[]string{"listening-port", "1", "ack", "1"}, proto.Conf{}, proto.ErrUnknownOption},
		{[]string{"listening-port"}, proto.Conf{}, proto.ErrArguments},
		{nil, proto.Conf{}, proto.ErrArguments},
	} {
		var got proto.Conf
		if err := proto.ParseConf(&got, args(tt.args...)); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%q: %+v, %v", tt.args, got, err)
		}
	}
}

// TestWantsStream: which clients that call SYNC expect the stream of writes, by what they have announced before.
func TestWantsStream(t *testing.T) {
	for _, tt := range []struct {
		client string
		conf   proto.Conf
		want   bool
	}{
		{"redis-cli 5.0 --rdb, 7.0 --cluster backup", proto.Conf{}, false},
		{"redis-cli 6.0 --rdb", proto.Conf{EOF: true}, false},
		{"redis-cli 6.2 --rdb", proto.Conf{EOF: true, RDBOnly: true}, false},
		{"redis-cli 7.0 --functions-rdb", proto.Conf{EOF: true, RDBOnly: true, NoKeys: true}, false},
		{"redis-cli 7.0 --replica", proto.Conf{EOF: true, NoKeys: true, NoLibraries: true}, true},
		{"a replica of Redis", proto.Conf{Port: 6379, EOF: true}, true},
	} {
		if got := tt.conf.WantsStream(); got != tt.want {
			t.Errorf("%s: %v", tt.client, got)
		}
	}
}

// TestAcks: acknowledgements are parsed from incomplete input, and distinguished from other requests.
func TestAcks(t *testing.T) {
	for _, tt := range []struct {
		in   []byte
		want proto.Ack
	}{
		{proto.AppendAck(nil, 12345678901234567890), proto.Ack{Sequence: 12345678901234567890}},
		{proto.AppendSyncedAck(nil, 8, 7), proto.Ack{Sequence: 8, Synced: 7}},
	} {
		for i := range tt.in {
			if _, _, n, err := proto.ReadAck(tt.in[:i]); n != 0 || err != nil {
				t.Fatalf("%d bytes: %d, %v", i, n, err)
			}
		}
		if a, ok, n, err := proto.ReadAck(tt.in); a != tt.want || !ok || n != len(tt.in) || err != nil {
			t.Errorf("%+v, want %+v; %t, %d, %v", a, tt.want, ok, n, err)
		}
	}
	for _, words := range [][]string{{"PING"}, {"replconf", "ack", "1", "other", "2"}} {
		in := proto.AppendRequest(nil, words...)
		if _, ok, n, err := proto.ReadAck(in); ok || n != len(in) || err != nil {
			t.Errorf("%q: %t, %d, %v", words, ok, n, err)
		}
	}
	for _, bad := range []string{"PING\r\n", "*99\r\n", "*1\r\n+a\r\n", "*1\r\n$1\r\naXX", "*1\r\n$9999\r\n",
		"*9999999999999999999\r\n", "*1\r\n$9999999999999999999\r\n",
		string(proto.AppendRequest(nil, "replconf", "ack", "x")),
		string(proto.AppendRequest(nil, "replconf", "ack", "1", "fack", "x"))} {
		if _, _, n, err := proto.ReadAck([]byte(bad)); !errors.Is(err, proto.ErrRequest) || n != 0 {
			t.Errorf("%q: %d, %v", bad, n, err)
		}
	}
}

// TestFileNames: names from a master that are outside of the directory, or not RocksDB's, are rejected.
func TestFileNames(t *testing.T) {
	for _, list := range []string{"", "-can't create db checkpoint", "../x", "a/b", "/etc/passwd", "LOCK", ".", "..",
		"000001.sst,,CURRENT", "000001.sst,000001.sst", "LOG", "MANIFEST-", "MANIFEST-x", "1.sst.tmp", "CURRENT ", "x.sst",
		strings.Repeat("1", 30) + ".sst",
	} {
		if names, err := proto.ParseFileList([]byte(list)); err == nil {
			t.Errorf("%q was accepted: %q", list, names)
		}
	}
	good := []string{"CURRENT", "IDENTITY", "MANIFEST-000011", "OPTIONS-000013", "000010.log", "000007.sst", "000008.blob"}
	if names, err := proto.ParseFileList([]byte(strings.Join(good, ","))); err != nil || !slices.Equal(names, good) {
		t.Errorf("%q, %v", names, err)
	}
}

func TestFileHeads(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "610": 610, "9223372036854775807": 1<<63 - 1, "": -1, "-1": -1, "x": -1, "9223372036854775808": -1,
	} {
		if got, err := proto.ParseFileHead([]byte(in)); (err == nil) != (want >= 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
}

func TestReplyErrors(t *testing.T) {
	for text, loading := range map[string]bool{
		"LOADING kvrocks is restoring the db from backup": true, "ERR sequence out of range, please use fullsync": false,
	} {
		if e := proto.ReplyError(text); e.Loading() != loading {
			t.Errorf("%q: %t", text, e.Loading())
		}
	}
	if !proto.ReplyError("ERR unknown option").UnknownOption() || proto.ReplyError("ERR no").UnknownOption() {
		t.Error("unknown options are not recognised")
	}
	if got := string(proto.AppendError(nil, proto.ErrCheckpoint)); got != "-can't create db checkpoint\r\n" {
		t.Errorf("%q", got)
	}
	if err := proto.CheckOK([]byte("hello")); !errors.Is(err, proto.ErrReply) {
		t.Error(err)
	}
	if _, err := proto.ParseName([]byte("-LOADING x")); err == nil {
		t.Error("an error was taken for a name")
	}
	if got := proto.AppendAuth(nil, "u", "p"); string(got) != "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$1\r\np\r\n" {
		t.Errorf("%q", got)
	}
}

// FuzzRead feeds arbitrary bytes to everything that parses: nothing panics, nothing beyond the input is used, and the
// parsed value is appended as the same bytes.
func FuzzRead(f *testing.F) {
	f.Add([]byte("$4\r\nping\r\n"))
	f.Add([]byte("*3\r\n$8\r\nreplconf\r\n$3\r\nack\r\n$1\r\n7\r\n"))
	f.Add([]byte("CURRENT,000010.log\r\n"))
	f.Add([]byte("610\r\n"))
	f.Add([]byte("$19\r\n_time 1700000000000\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		frame, n, need, err := proto.ReadFrame(in, maxFrame)
		switch {
		case err != nil || n == 0:
			if err == nil && need <= len(in) {
				t.Fatalf("%d bytes of %d are needed", need, len(in))
			}
		case n > len(in):
			t.Fatalf("%d of %d bytes were used", n, len(in))
		default:
			again, m, _, err := proto.ReadFrame(proto.AppendFrame(nil, frame.Payload), maxFrame)
			if err != nil || m == 0 || again.Kind != frame.Kind || !bytes.Equal(again.Payload, frame.Payload) {
				t.Fatalf("%+v is read as %+v, %v", frame, again, err)
			}
			if frame.Kind == proto.KindBatch {
				frame.Sequence()
				frame.Count()
			}
		}
		if a, ok, n, err := proto.ReadAck(in); err == nil && n > 0 && ok {
			again, ok, _, err := proto.ReadAck(proto.AppendSyncedAck(nil, a.Sequence, a.Synced))
			if err != nil || !ok || again != a {
				t.Fatalf("%+v is read as %+v, %v", a, again, err)
			}
		}
		line, n, err := proto.ReadLine(in, proto.MaxLine)
		if n > len(in) || err != nil && n != 0 {
			t.Fatalf("%d of %d bytes, %v", n, len(in), err)
		}
		if names, err := proto.ParseFileList(line); err == nil {
			made := bytes.TrimSuffix(proto.AppendFileList(nil, names), []byte("\r\n"))
			if again, err := proto.ParseFileList(made); err != nil || !slices.Equal(again, names) {
				t.Fatalf("%q is read as %q, %v", names, again, err)
			}
		}
		if size, err := proto.ParseFileHead(line); err == nil && size < 0 {
			t.Fatal(size)
		}
	})
}
