package command

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/hll"
	"github.com/basaltdb/basalt/engine/stream"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/rdb"
)

// payload appends the footer of DUMP, with a version and a checksum, to a body.
func payload(body string, version uint16) string {
	return string(rdb.AppendFooter([]byte(body), version))
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func f64(f float64) string {
	return string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)))
}

func updateKey(t testing.TB, db *engine.DB, key string, f func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(cf.DefaultNamespace, [][]byte{[]byte(key)}, f))
}

func TestDump(t *testing.T) {
	db := enginetest.Open(t)
	bits := make([]byte, 3)
	bits[2] = 1 << 6
	for _, tt := range []struct {
		make    string
		body    string
		version uint16
	}{
		{"SET k hello", "\x00\x05hello", 8},
		{"SET k -129", "\x00\xc1\x7f\xff", 8},
		{"SET k 0129", "\x00\x040129", 8},
		{"RPUSH k a 5 a", "\x01\x03\x01a\xc0\x05\x01a", 8},
		{"SADD k b a", "\x02\x02\x01a\x01b", 8},
		{"ZADD k 1.5 b 2 a", "\x05\x02\x01a" + f64(2) + "\x01b" + f64(1.5), 8},
		{"HSET k b x a 100000", "\x04\x02\x01a\xc2\xa0\x86\x01\x00\x01b\x01x", 8},
		{"SETBIT k 17 1", "\x00\x03" + string(bits), 8},
		{"XADD k 5-1 f v", "\x0f\x80\x00\x00\x00\x01\x10" + string(cf.StreamID{Ms: 5, Seq: 1}.Append(nil)) + "\x1d" +
			"\x1d\x00\x00\x00\x0a\x00" + "\x01\x01\x00\x01\x01\x01\x81f\x02\x00\x01" +
			"\x02\x01\x00\x01\x00\x01\x81v\x02\x04\x01" + "\xff" + "\x01\x05\x01\x00", 9},
	} {
		do(t, db, "DEL", "k")
		do(t, db, strings.Fields(tt.make)...)
		want := payload(tt.body, tt.version)
		for _, got := range []string{do(t, db, "DUMP", "k"), do3(t, db, "DUMP", "k")} {
			if got != bulk(want) {
				t.Errorf("%s: %q, want %q", tt.make, got, bulk(want))
			}
		}
		// The payload does not contain the expiry.
		do(t, db, "EXPIRE", "k", "100")
		if got := do(t, db, "DUMP", "k"); got != bulk(want) {
			t.Errorf("%s, with an expiry: %q", tt.make, got)
		}
		do(t, db, "DEL", "k")
		if got := do(t, db, "RESTORE", "k", "0", want); got != "+OK\r\n" {
			t.Errorf("%s: RESTORE: %q", tt.make, got)
		}
		if got := do(t, db, "TTL", "k"); got != ":-1\r\n" {
			t.Errorf("%s, restored: TTL: %q", tt.make, got)
		}
		if got := do(t, db, "DUMP", "k"); got != bulk(want) {
			t.Errorf("%s, restored: %q", tt.make, got)
		}
	}
	if got := do(t, db, "DUMP", "missing"); got != "$-1\r\n" {
		t.Errorf("missing: %q", got)
	}
	if got := do3(t, db, "DUMP", "missing"); got != "_\r\n" {
		t.Errorf("missing: %q", got)
	}
}

// TestDumpUnsupported dumps keys of types that Redis does not have.
func TestDumpUnsupported(t *testing.T) {
	db := enginetest.Open(t)
	for _, tt := range []struct{ make, want string }{
		{"BF.ADD k a", "-ERR Invalid or Not supported object type 9\r\n"},
		{"SIADD k 1", "-ERR Invalid or Not supported object type 7\r\n"},
		{"TDIGEST.CREATE k", "-ERR Invalid or Not supported object type 12\r\n"},
		{"TS.ADD k 1 1", "-ERR Invalid or Not supported object type 13\r\n"},
		{"CF.ADD k a", "-ERR Invalid or Not supported object type 14\r\n"},
	} {
		do(t, db, "DEL", "k")
		if got := do(t, db, strings.Fields(tt.make)...); strings.HasPrefix(got, "-") {
			t.Fatalf("%s: %s", tt.make, got)
		}
		if got := do(t, db, "DUMP", "k"); got != tt.want {
			t.Errorf("%s: %q", tt.make, got)
		}
	}
}

// TestDumpLimit dumps values that are larger than the max length of a string.
func TestDumpLimit(t *testing.T) {
	db := enginetest.Open(t)
	long := strings.Repeat("x", 600)
	do(t, db, "RPUSH", "list", long, long)
	do(t, db, "HSET", "hash", "f", long, "g", long)
	do(t, db, "SADD", "set", long, long+"y")
	do(t, db, "ZADD", "zset", "1", long, "2", long+"y")
	do(t, db, "XADD", "stream", "1-1", long, long)
	for _, key := range []string{"list", "hash", "set", "zset", "stream"} {
		err := db.View(cf.DefaultNamespace, [][]byte{[]byte(key)}, func(tx *engine.Tx) error {
			rec, err := tx.LoadAny([]byte(key))
			if err != nil {
				return err
			}
			for _, limit := range []int64{1000, 2000} {
				d := dumper{limit: limit}
				if err := d.value(tx, []byte(key), &rec); err != nil {
					return err
				}
				if full := limit == 1000; d.full != full || full && len(d.b) > 1000 {
					t.Errorf("%s: %d bytes, full %v", key, len(d.b), d.full)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestRestore(t *testing.T) {
	db := enginetest.Open(t)
	good, other := payload("\x00\x05hello", 11), payload("\x00\x05other", 11)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"k", "0", other}, "+OK\r\n"},
		{[]string{"k", "0", other}, "-BUSYKEY Target key name already exists.\r\n"},
		{[]string{"k", "x", "y"}, "-BUSYKEY Target key name already exists.\r\n"},
		{[]string{"k", "0", good, "replace"}, "+OK\r\n"},
		{[]string{"n", "0", payload("\x00\x05hello", 12)}, "+OK\r\n"},
		{[]string{"bad", "0", payload("\x00\x05hello", 13)}, "-ERR DUMP payload version or checksum are wrong\r\n"},
		{[]string{"bad", "0", good[:len(good)-1] + "x"}, "-ERR DUMP payload version or checksum are wrong\r\n"},
		{[]string{"bad", "x", good}, "-ERR value is not an integer or out of range\r\n"},
		{[]string{"bad", "-1", good}, "-ERR Invalid TTL value, must be >= 0\r\n"},
		{[]string{"bad", "9223372036854775807", good}, "-ERR invalid expire time in 'restore' command\r\n"},
		{[]string{"bad", "0", good, "FREQ", "256"}, "-ERR Invalid FREQ value, must be >= 0 and <= 255\r\n"},
		{[]string{"bad", "0", good, "IDLETIME", "-1"}, "-ERR Invalid IDLETIME value, must be >= 0\r\n"},
		{[]string{"bad", "0", good, "IDLETIME", "1", "FREQ", "1"}, "-ERR syntax error\r\n"},
		{[]string{"bad", "0", payload("\x06", 11)}, "-ERR Bad data format\r\n"},
		{[]string{"bad", "0", payload("", 11)}, "-ERR Bad data format\r\n"},
		{[]string{"bad", "0", payload("\x02\x02\x01a\x01a", 11)}, "-ERR Bad data format\r\n"},
		{[]string{"bad", "0", payload("\x04\x02\x01a\x01b\x01a\x01c", 11)}, "-ERR Bad data format\r\n"},
		{[]string{"k", "0", payload("\x02\x02\x01a\x01a", 11), "REPLACE"}, "-ERR Bad data format\r\n"},
		{[]string{"m", "9223372036854775807", good, "ABSTTL"}, "+OK\r\n"},
		// The greatest id of all.
		{[]string{"greatest", "0", payload("\x0f\x01\x10"+strings.Repeat("\xff", 16)+"\x1d\x1d\x00\x00\x00\x0a\x00"+
			"\x01\x01\x00\x01\x01\x01\x81f\x02\x00\x01"+"\x02\x01\x00\x01\x00\x01\x81v\x02\x04\x01"+"\xff\x01\x81"+
			strings.Repeat("\xff", 8)+"\x81"+strings.Repeat("\xff", 8)+"\x00", 11)},
			"+OK\r\n"},
	} {
		if got := do(t, db, append([]string{"RESTORE"}, tt.args...)...); got != tt.want {
			t.Errorf("%q: %q", tt.args, got)
		}
		if got := do(t, db, "EXISTS", "bad"); got != ":0\r\n" {
			t.Fatalf("%q has created a key", tt.args)
		}
	}
	if got := do(t, db, "GET", "k"); got != "$5\r\nhello\r\n" {
		t.Errorf("k is %q", got)
	}
	if got := do(t, db, "PEXPIRETIME", "m"); got != ":9223372036854775807\r\n" {
		t.Errorf("m expires at %q", got)
	}
}

// TestRestoreCuckoo restores a cuckoo filter of Redis's module with the item "a". MurmurHash64A of it is
// 0x071717d2d36b6b11, so the fingerprint is 196, in bucket 1 of 4.
func TestRestoreCuckoo(t *testing.T) {
	db := enginetest.Open(t)
	value := func(filter string) string {
		body, version := rdb.AppendValue(nil, &rdb.Value{Kind: rdb.Cuckoo, Cuckoo: &rdb.CuckooValue{Items: 1, BucketSize: 2,
			MaxIterations: 20, Expansion: 1, Filters: [][]byte{[]byte(filter)}}})
		return payload(string(body), version)
	}
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"RESTORE", "c", "0", value("\x00\x00\xc4\x00\x00\x00\x00\x00")}, "+OK\r\n"},
		{[]string{"TYPE", "c"}, "+MBbloomCF\r\n"},
		{[]string{"CF.MEXISTS", "c", "a", "b"}, "*2\r\n:1\r\n:0\r\n"},
		{[]string{"CF.DEL", "c", "a"}, ":1\r\n"},
		{[]string{"CF.EXISTS", "c", "a"}, ":0\r\n"},
		{[]string{"RESTORE", "c", "0", value("\x00\x00\xc4\x00\x00\x00"), "REPLACE"},
			"-ERR the sizes of the cuckoo filter are none that a chain here can have\r\n"},
		{[]string{"CF.ADDNX", "c", "a"}, ":1\r\n"},
	} {
		if got := do(t, db, step.args...); got != step.want {
			t.Errorf("%q: %q, want %q", step.args, got, step.want)
		}
	}
}

// TestRestoreTooLarge restores payloads whose records are larger than maxRestore: a compressed string, and many
// elements, whose records each contain a long key.
func TestRestoreTooLarge(t *testing.T) {
	db := enginetest.Open(t)
	zeros := bytes.Repeat([]byte{0xe0, 0xff, 0x00}, 1<<22)
	lzf := "\xc3\x80" + string(binary.BigEndian.AppendUint32(nil, uint32(2+len(zeros)))) + "\x80" +
		string(binary.BigEndian.AppendUint32(nil, uint32(1+len(zeros)/3*264))) + "\x00a" + string(zeros)
	elems := "\x01\x80\x00\x00\x10\x00" + strings.Repeat("\x01a", 1<<12)
	for name, args := range map[string][]string{
		"compressed": {"k", "0", payload("\x00"+lzf, 11)},
		"long key":   {strings.Repeat("k", 1<<18), "0", payload(elems, 11)},
	} {
		if got := do(t, db, append([]string{"RESTORE"},
			args...)...); got != "-ERR the value is too large to be restored at once\r\n" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestRestoreIsOneWrite: RESTORE of a collection is one commit.
func TestRestoreIsOneWrite(t *testing.T) {
	db := enginetest.Open(t)
	var body []byte
	body = rdb.AppendHead(body, rdb.Hash, 5000)
	for i := range 5000 {
		body = rdb.AppendString(rdb.AppendString(body, fmt.Append(nil, i)), []byte("v"))
	}
	do(t, db, "RPUSH", "k", "a")
	before, began := db.Stats.Commits.Load(), time.Now()
	if got := do(t, db, "RESTORE", "k", "100000", payload(string(body), 11), "REPLACE"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	if n := db.Stats.Commits.Load() - before; n != 1 {
		t.Errorf("%d commits", n)
	}
	if got := do(t, db, "HLEN", "k"); got != ":5000\r\n" {
		t.Error(got)
	}
	if got := do(t, db, "TTL", "k"); !sameLives(got, ":100\r\n", time.Since(began)) {
		t.Error(got)
	}
}

// TestDumpExpiringFields dumps and restores a hash whose fields expire.
func TestDumpExpiringFields(t *testing.T) {
	db := enginetest.Open(t)
	const at = 1 << 45
	do(t, db, "HSET", "k", "a", "1", "b", "2", "c", "3", "d", "4")
	updateKey(t, db, "k", func(tx *engine.Tx) error {
		for i, field := range []string{"a", "c"} {
			if _, err := hash.Expire(tx, []byte("k"), bytesOf(field), at+int64(i), hash.Always); err != nil {
				return err
			}
		}
		return nil
	})
	first := string(binary.LittleEndian.AppendUint64(nil, at))
	want := payload("\x18"+first+"\x04\x01\x01a\xc0\x01\x00\x01b\xc0\x02\x02\x01c\xc0\x03\x00\x01d\xc0\x04", 12)
	if got := do(t, db, "DUMP", "k"); got != bulk(want) {
		t.Fatalf("%q, want %q", got, want)
	}
	if got := do(t, db, "RESTORE", "copy", "0", want); got != "+OK\r\n" {
		t.Fatal(got)
	}
	if got := do(t, db, "DUMP", "copy"); got != bulk(want) {
		t.Errorf("the copy is %q", got)
	}
	if got := do(t, db, "HGETALL",
		"copy"); got != "*8\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n$1\r\nc\r\n$1\r\n3\r\n$1\r\nd\r\n$1\r\n4\r\n" {
		t.Error(got)
	}
	// RESTORE drops fields whose time has passed.
	past := string(binary.LittleEndian.AppendUint64(nil, 1))
	do(t, db, "RESTORE", "past", "0", payload("\x18"+past+"\x02\x01\x01a\xc0\x01\x00\x01b\xc0\x02", 12))
	if got := do(t, db, "HGETALL", "past"); got != "*2\r\n$1\r\nb\r\n$1\r\n2\r\n" {
		t.Error(got)
	}
	do(t, db, "RESTORE", "gone", "0", payload("\x18"+past+"\x01\x01\x01a\xc0\x01", 12))
	if got := do(t, db, "EXISTS", "gone"); got != ":0\r\n" {
		t.Error(got)
	}
	// A hash without expiries is dumped in the plain encoding.
	updateKey(t, db, "k", func(tx *engine.Tx) error {
		_, err := hash.Delete(tx, []byte("k"), bytesOf("a", "c"))
		return err
	})
	if got := do(t, db, "DUMP", "k"); got != bulk(payload("\x04\x02\x01b\xc0\x02\x01d\xc0\x04", 8)) {
		t.Errorf("%q", got)
	}
}

// TestDumpCorrupt: DUMP of a key with corrupt records is an error that names the key.
func TestDumpCorrupt(t *testing.T) {
	db := enginetest.Open(t)
	do(t, db, "HSET", "hash", "f", "v")
	do(t, db, "ZADD", "zset", "1", "m")
	do(t, db, "RPUSH", "list", "a")
	do(t, db, "PFADD", "hll", "a")
	do(t, db, "XADD", "stream", "1-1", "f", "v")
	updateKey(t, db, "ttl", func(tx *engine.Tx) error {
		return hash.Restore(tx, []byte("ttl"), bytesOf("f", "v"), []uint64{1 << 45})
	})
	for key, damage := range map[string]func(tx *engine.Tx, rec *engine.Record){
		"hash": func(tx *engine.Tx, rec *engine.Record) { tx.Delete(cf.Default, tx.Subkey(rec, []byte("f"))) },
		"zset": func(tx *engine.Tx, rec *engine.Record) { tx.Delete(cf.ZSetScore, tx.ScoreKey(rec, 1, []byte("m"))) },
		"list": func(tx *engine.Tx, rec *engine.Record) { tx.Delete(cf.Default, tx.SubkeyU64(rec, cf.ListOrigin)) },
		"hll": func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Default, tx.Subkey(rec, []byte("3")), []byte("short"))
		},
		"ttl": func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Default, tx.Subkey(rec, []byte("f")), []byte("short"))
		},
		"stream": func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Stream, tx.Subkey(rec, cf.StreamID{Ms: 1, Seq: 1}.Append(nil)), []byte("\x05"))
		},
	} {
		updateKey(t, db, key, func(tx *engine.Tx) error {
			rec, err := tx.LoadAny([]byte(key))
			damage(tx, &rec)
			return err
		})
		if got := do(t, db, "DUMP", key); !strings.HasPrefix(got, `-ERR key "`+key+`"`) {
			t.Errorf("%s: %q", key, got)
		}
	}
}

// FuzzRestore restores any payload with a valid footer. If RESTORE creates a key, the key can be dumped, and the dump
// can be restored to an equal key.
func FuzzRestore(f *testing.F) {
	for _, body := range []string{"\x00\x05hello", "\x01\x02\x01a\x01b", "\x02\x02\x01a\x01b", "\x05\x01\x01a" +
		f64(1.5), "\x04\x01\x01a\x01b",
		"\x18" + f64(math.Float64frombits(1<<45)) + "\x02\x01\x01a\xc0\x01\x00\x01b\xc0\x02", "\x0f\x00\x00\x07\x00\x00",
		"\x13\x00\x00\x07\x00\x00\x00\x00\x00\x00\x01\x01g\x05\x01\x01\x00\x01\x01c" + f64(0) + "\x00",
		"\x00\x1cHYLL\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xfe\x80"} {
		f.Add([]byte(body))
	}
	db := enginetest.Open(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) > 1<<16 {
			return
		}
		got := do(t, db, "RESTORE", "k", "0", payload(string(body), 11), "REPLACE")
		if got != "+OK\r\n" {
			if !strings.HasPrefix(got, "-ERR ") {
				t.Fatal(got)
			}
			return
		}
		one := do(t, db, "DUMP", "k")
		if one == "$-1\r\n" { // a hash whose fields have all expired
			return
		}
		dumped := one[strings.Index(one, "\n")+1 : len(one)-2]
		if got := do(t, db, "RESTORE", "copy", "0", dumped, "REPLACE"); got != "+OK\r\n" {
			t.Fatalf("%q: %s", dumped, got)
		}
		if other := do(t, db, "DUMP", "copy"); other != one {
			t.Fatalf("%q became %q", one, other)
		}
	})
}

// TestRestoreHyperLogLog: a HyperLogLog, which is a string in Redis, is restored as a key of its own type. An invalid
// one is restored as a string.
func TestRestoreHyperLogLog(t *testing.T) {
	db := enginetest.Open(t)
	sparse := "HYLL\x01" + strings.Repeat("\x00", 11) + "\x7f\xff"
	do(t, db, "RESTORE", "empty", "0", payload("\x00"+string(rune(len(sparse)))+sparse, 11))
	for _, tt := range []struct{ command, want string }{
		{"TYPE empty", "+hyperloglog\r\n"}, {"PFCOUNT empty", ":0\r\n"}, {"PFADD empty a b c",
			":1\r\n"}, {"PFCOUNT empty", ":3\r\n"},
	} {
		if got := do(t, db, strings.Fields(tt.command)...); got != tt.want {
			t.Errorf("%s: %q", tt.command, got)
		}
	}
	broken := sparse[:len(sparse)-1] + "\xfe" // one register is missing
	do(t, db, "RESTORE", "string", "0", payload("\x00"+string(rune(len(broken)))+broken, 11))
	if got := do(t, db, "GET", "string"); got != bulk(broken) {
		t.Errorf("%q", got)
	}
	updateKey(t, db, "empty", func(tx *engine.Tx) error {
		image, found, err := hll.Export(tx, []byte("empty"))
		if !found || len(image) != 16+12288 {
			t.Errorf("%d bytes, %v", len(image), found)
		}
		return err
	})
}

// TestDumpNacked: entries that are nobody's are so after RESTORE, in their order.
func TestDumpNacked(t *testing.T) {
	db := enginetest.Open(t)
	for _, line := range []string{"XADD s 1-0 f v", "XADD s 2-0 f v", "XADD s 3-0 f v", "XGROUP CREATE s g 0",
		"XREADGROUP GROUP g c STREAMS s >", "XNACK s g SILENT IDS 1 3-0", "XNACK s g FATAL IDS 1 1-0"} {
		do(t, db, strings.Fields(line)...)
	}
	dump := do(t, db, "DUMP", "s")
	_, dump, _ = strings.Cut(dump, "\r\n")
	if got := do(t, db, "RESTORE", "t", "0", strings.TrimSuffix(dump, "\r\n")); got != "+OK\r\n" {
		t.Fatal(got)
	}
	for _, cmd := range []string{"XPENDING @ g - + 10", "XPENDING @ g", "XINFO GROUPS @", "XNACK @ g FAIL IDS 1 9-9 FORCE",
		"XREADGROUP GROUP g c COUNT 1 CLAIM 100000 STREAMS @ >", "XREADGROUP GROUP g c COUNT 1 CLAIM 100000 STREAMS @ >"} {
		idle := regexp.MustCompile(`:\d{6,18}\r\n`)
		reply := func(key string) string {
			got := do(t, db, strings.Fields(strings.ReplaceAll(cmd, "@", key))...)
			return strings.ReplaceAll(idle.ReplaceAllString(got, ":idle\r\n"), "$1\r\n"+key+"\r\n", "key ")
		}
		if strings.HasSuffix(cmd, "10") { // 2-0 has waited some milliseconds
			idle = regexp.MustCompile(`c\r\n:\d+\r\n`)
		}
		if got, want := reply("t"), reply("s"); got != want || strings.HasPrefix(got, "-") {
			t.Errorf("%s: %q, want %q", cmd, got, want)
		}
	}
}

// TestRestoreStreamOrder checks errors of stream.Restore that RESTORE cannot cause.
func TestRestoreStreamOrder(t *testing.T) {
	db := enginetest.Open(t)
	updateKey(t, db, "s", func(tx *engine.Tx) error {
		r, err := stream.Restore(tx, []byte("s"))
		if err != nil {
			return err
		}
		pair := bytesOf("f", "v")
		for _, tt := range []struct {
			id     stream.ID
			fields [][]byte
			want   error
		}{
			{stream.ID{}, pair, stream.ErrZeroID},
			{stream.ID{Ms: 5}, nil, stream.ErrFields},
			{stream.ID{Ms: 5}, pair[:1], stream.ErrFields},
			{stream.ID{Ms: 5}, pair, nil},
			{stream.ID{Ms: 5}, pair, stream.ErrIDTooSmall},
			{stream.ID{Ms: 4, Seq: 9}, pair, stream.ErrIDTooSmall},
			{stream.ID{Ms: 5, Seq: 1}, pair, nil},
		} {
			if err := r.Add(tt.id, tt.fields); err != tt.want {
				t.Errorf("%v: %v", tt.id, err)
			}
		}
		if err := r.End(stream.State{LastGenerated: stream.ID{Ms: 5}}); err != stream.ErrSetIDBelowTop {
			t.Errorf("end before the last entry: %v", err)
		}
		return r.End(stream.State{LastGenerated: stream.ID{Ms: 6}, EntriesAdded: 2})
	})
	if got := do(t, db, "XLEN", "s"); got != ":2\r\n" {
		t.Error(got)
	}
}
