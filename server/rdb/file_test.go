package rdb

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/basaltdb/basalt/internal/crc64"
	"github.com/basaltdb/basalt/internal/require"
)

// rdbFile builds a file of a version, with items and the checksum.
func rdbFile(version int, items ...string) string {
	b := fmt.Sprintf("REDIS%04d", version) + join(items...) + "\xff"
	if version < checksumVersion {
		return b
	}
	return b + le64(crc64.Update(0, []byte(b)))
}

// readFile reads a file to its end and shows its items, one a line.
func readFile(r io.Reader, size, maxBytes int64) (string, error) {
	var b strings.Builder
	f, err := NewFile(r, size, maxBytes)
	if err != nil {
		return "", err
	}
	for {
		i, err := f.Next()
		if err == io.EOF {
			return b.String(), nil
		}
		if err != nil {
			if _, again := f.Next(); again != err {
				return "", fmt.Errorf("another error the second time: %w", again)
			}
			return b.String(), err
		}
		if i.Function != nil {
			fmt.Fprintf(&b, "function %q\n", i.Function)
			continue
		}
		fmt.Fprintf(&b, "%d %q", i.DB, i.Key)
		if i.Expires {
			fmt.Fprintf(&b, " expires %d", i.Expire)
		}
		if i.Value == nil {
			b.WriteString(" empty\n")
		} else {
			fmt.Fprintf(&b, " %s\n", text(i.Value))
		}
	}
}

func TestFile(t *testing.T) {
	key := func(name string) string { return "\x00" + str(name) + str("v") }
	expireMs := func(ms uint64) string { return "\xfc" + le64(ms) }
	for _, tt := range []struct {
		name string
		file string
		want string
	}{
		{"nothing", rdbFile(12), ""},
		{"no checksum before version 5", rdbFile(4, key("a")), `0 "a" string "v"` + "\n"},
		{"checksum switched off", "REDIS0009" + key("a") + "\xff" + le64(0), `0 "a" string "v"` + "\n"},
		{"databases", rdbFile(9, key("a"), "\xfe\x03", "\xfb\x02\x01", key("b"), "\xfe\x80\x00\x01\x00\x00", key("c")),
			`0 "a" string "v"` + "\n" + `3 "b" string "v"` + "\n" + `65536 "c" string "v"` + "\n"},
		{"auxiliary fields", rdbFile(11, "\xfa"+str("redis-ver")+str("7.2.0"),
			"\xfa"+str("ctime")+"\xc2\x01\x02\x03\x04", key("a")), `0 "a" string "v"` + "\n"},
		{"an expiry belongs to one key", rdbFile(9, expireMs(5000), key("a"), key("b"), "\xfd"+le32(7), key("c"), key("d")),
			`0 "a" expires 5000 string "v"` + "\n" + `0 "b" string "v"` + "\n" + `0 "c" expires 7000 string "v"` +
				"\n" + `0 "d" string "v"` + "\n"},
		{"expiry -1 is none", rdbFile(9, expireMs(1<<64-1), key("a")), `0 "a" string "v"` + "\n"},
		{"expiry before the epoch", rdbFile(9, "\xfd"+le32(-2), key("a"), expireMs(0), key("b")),
			`0 "a" expires -2000 string "v"` + "\n" + `0 "b" expires 0 string "v"` + "\n"},
		{"accesses", rdbFile(9, expireMs(5), "\xf8\x80\x00\x01\x00\x00", key("a"), "\xf9\xff", key("b")),
			`0 "a" expires 5 string "v"` + "\n" + `0 "b" string "v"` + "\n"},
		{"slots", rdbFile(12, "\xf4\x40\x64\x02\x01", key("a")), `0 "a" string "v"` + "\n"},
		{"functions", rdbFile(10, "\xf5"+str("#!lua name=l"), key("a")), `function "#!lua name=l"` + "\n" +
			`0 "a" string "v"` + "\n"},
		{"empty collections", rdbFile(9, expireMs(9), "\x01"+str("l")+"\x00", "\x04"+str("h")+"\x00",
			"\x14"+str("s")+str(listpack())), `0 "l" expires 9 empty` + "\n" + `0 "h" empty` + "\n" + `0 "s" empty` + "\n"},
		{"empty names and values", rdbFile(9, "\x00\x00\x00", "\x01\x00\x01\x00"), `0 "" string ""` + "\n" +
			`0 "" list ""` + "\n"},
		{"packed forms", rdbFile(12, "\x10"+str("h")+str(listpack("f", 5)), "\x0b"+str("s")+str(intset(2, -1, 7)),
			"\x12"+str("l")+"\x02\x01\x01a\x02"+str(listpack("b", 5)),
			"\x19"+str("e")+le64(1000)+str(listpack("a", "b", 1000)), "\x0f"+str("x")+"\x01"+node+"\x02\x07\x00\x00"),
			`0 "h" hash "f"="5"` + "\n" + `0 "s" set "-1" "7"` + "\n" + `0 "l" list "a" "b" "5"` + "\n" +
				`0 "e" hash "a"="b"@1000` + "\n" +
				`0 "x" stream 5-1 "f" "v" 5-3 "a" "1" "b" "2" last 7-0 deleted 0-0 added 2` + "\n"},
		{"compressed strings", rdbFile(9, "\x00\xc3\x06\x14\x01aa\xe0\x09\x00"+"\x01x"), `0 "` +
			strings.Repeat("a", 20) + `" string "x"` + "\n"},
	} {
		for _, size := range []int64{-1, int64(len(tt.file))} {
			for _, r := range []io.Reader{strings.NewReader(tt.file), iotest.OneByteReader(strings.NewReader(tt.file))} {
				if got, err := readFile(r, size, 1<<20); got != tt.want || err != nil {
					t.Errorf("%s: %s%v", tt.name, got, err)
				}
			}
		}
	}
}

// TestFileErrors reads files that are damaged: the error says where.
// valkeyFile builds a file of Valkey 9.
func valkeyFile(items ...string) string {
	b := "VALKEY080" + join(items...) + "\xff"
	return b + le64(crc64.Update(0, []byte(b)))
}

// TestValkey: what version 80 has beyond that of Redis.
func TestValkey(t *testing.T) {
	hash := "\x16" + str("h") + "\x02" + str("f") + str("v") + le64(1<<64-1) + str("g") + str("w") + le64(5000)
	for _, tt := range []struct{ name, file, want string }{
		{"a hash of which a field expires", valkeyFile("\x00"+str("a")+str("b"), hash),
			`0 "a" string "b"` + "\n" + `0 "h" hash "f"="v"@0 "g"="w"@5000` + "\n"},
		{"no field expires", valkeyFile("\x16" + str("h") + "\x01" + str("f") + str("v") + le64(1<<64-1)),
			`0 "h" hash "f"="v"` + "\n"},
	} {
		got, err := readFile(strings.NewReader(tt.file), int64(len(tt.file)), 1<<20)
		if err != nil || got != tt.want {
			t.Errorf("%s: %v\n%swant\n%s", tt.name, err, got, tt.want)
		}
	}
	for name, file := range map[string]string{
		"another version":             "VALKEY081\xff" + le64(0),
		"a type of Redis 7.4":         valkeyFile("\x18" + str("h") + le64(0) + "\x00"),
		"type 128 in a file of Redis": rdbFile(12, "\x80"+str("h")+"\x01"+str("f")+str("v")+le64(1<<64-1)),
	} {
		if got, err := readFile(strings.NewReader(file), int64(len(file)), 1<<20); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
	if _, err := Decode([]byte("\x80\x01"+str("f")+str("v")+le64(1<<64-1)), 1<<20); !errors.Is(err, ErrFormat) {
		t.Errorf("type 128 in a payload: %v", err)
	}
}

// TestAux: auxiliary fields are told in their order, and an error ends the reading.
func TestAux(t *testing.T) {
	aux := func(name, value string) string { return "\xfa" + str(name) + str(value) }
	file := rdbFile(9, aux("redis-ver", "6.2.14"), aux("repl-stream-db", "3"), "\x00"+str("a")+str("b"),
		aux("lua", "return 1"))
	open := func() *File {
		f, err := NewFile(strings.NewReader(file), int64(len(file)), 1<<20)
		require.NoError(t, err)
		return f
	}
	var got []string
	f := open()
	f.OnAux = func(name string, value []byte) error {
		got = append(got, name+"="+string(value))
		return nil
	}
	if _, err := f.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Next(); err != io.EOF {
		t.Fatal(err)
	}
	if want := "redis-ver=6.2.14 repl-stream-db=3 lua=return 1"; strings.Join(got, " ") != want {
		t.Errorf("told %q", got)
	}
	f = open()
	wrong := errors.New("wrong")
	f.OnAux = func(string, []byte) error { return wrong }
	if _, err := f.Next(); !errors.Is(err, wrong) {
		t.Errorf("Next: %v", err)
	}
}

func TestFileErrors(t *testing.T) {
	good := "\x00" + str("a") + str("v") // 5 bytes from 9 on
	broken := errors.New("broken")
	for _, tt := range []struct {
		name   string
		file   string
		is     error
		offset int64
		key    string
		loaded int // items before it
	}{
		{"nothing", "", ErrNoRDB, -1, "", 0},
		{"something else", "PK\x03\x04 and so on", ErrNoRDB, -1, "", 0},
		{"a later version", rdbFile(13), ErrNoRDB, -1, "", 0},
		{"version 0", rdbFile(0), ErrNoRDB, -1, "", 0},
		{"no version", "REDIS+012\xff", ErrNoRDB, -1, "", 0},
		{"only the header", "REDIS0009", ErrFormat, 9, "", 0},
		{"no end", "REDIS0009" + good, ErrFormat, 14, "", 1},
		{"ends in a name", "REDIS0009" + good + "\x00\x05ab", ErrFormat, 16, "", 1},
		{"ends in a value", "REDIS0009" + good + "\x00\x01b\x05ab", ErrFormat, 18, "b", 1},
		{"ends in the checksum", "REDIS0009" + good + "\xff\x01\x02", ErrFormat, 15, "", 1},
		{"wrong checksum", "REDIS0009" + good + "\xff" + le64(1), ErrChecksum, 23, "", 1},
		{"more behind the end", rdbFile(9, good) + "*1", ErrFormat, 23, "", 1},
		{"more behind the end of version 4", rdbFile(4, good) + "*1", ErrFormat, 15, "", 1},
		{"type that there is not", "REDIS0009" + good + "\x1a\x01b\x01c", ErrFormat, 15, "", 1},
		{"type that there is no longer", "REDIS0009" + "\x08\x01b\x01c", ErrFormat, 12, "b", 0},
		{"value of a module", "REDIS0009" + good + "\x07\x01b\x01c", ErrUnsupported, 18, "b", 1},
		{"data of a module", "REDIS0009" + good + "\xf7\x01\x02", ErrUnsupported, 16, "", 1},
		{"function of a release candidate", "REDIS0009" + "\xf6\x01a\x00\x00\x01b", ErrFormat, 10, "", 0},
		{"a member twice", "REDIS0009" + "\x02\x01b\x02\x01x\x01x", ErrFormat, 17, "b", 0},
		{"damaged listpack", "REDIS0009" + "\x10\x01b\x03abc", ErrFormat, 16, "b", 0},
		{"a length of 2^62", "REDIS0009" + good + "\x00\x01b\x81\x40" + strings.Repeat("\x00", 7), ErrFormat, 26, "b", 1},
		{"2^62 members", "REDIS0009" + good + "\x02\x01b\x81\x40" + strings.Repeat("\x00", 7), ErrFormat, 26, "b", 1},
		{"database 2^64-1", "REDIS0009" + good + "\xfe\x81" + strings.Repeat("\xff", 8) + good, ErrFormat, 24, "", 1},
		{"a value beyond the limit", "REDIS0009" + good + "\x00\x01b\x80\x00\x20\x00\x00" +
			strings.Repeat("x", 1<<21), ErrTooLarge, 22, "b", 1},
	} {
		for _, size := range []int64{int64(len(tt.file)), -1} {
			got, err := readFile(strings.NewReader(tt.file), size, 1<<20)
			if size < 0 && errors.Is(tt.is, ErrFormat) && strings.HasPrefix(tt.name, "a length") && errors.Is(err, ErrTooLarge) {
				continue // without the size of the file it is as good a reason
			}
			var at *FileError
			switch {
			case !errors.Is(err, tt.is):
				t.Errorf("%s: %v", tt.name, err)
			case tt.offset < 0:
			case !errors.As(err, &at):
				t.Errorf("%s: it does not say where: %v", tt.name, err)
			case strings.Count(got, "\n") != tt.loaded || string(at.Key) != tt.key:
				t.Errorf("%s: after %q: %v", tt.name, got, err)
			case size >= 0 && at.Offset != tt.offset:
				t.Errorf("%s: offset %d, want %d: %v", tt.name, at.Offset, tt.offset, err)
			}
		}
	}
	for _, file := range []string{"REDI", "REDIS0009\x00\x01a"} {
		_, err := readFile(io.MultiReader(strings.NewReader(file), iotest.ErrReader(broken)), 1000, 1<<20)
		if !errors.Is(err, ErrRead) || !errors.Is(err, broken) {
			t.Errorf("%q and an error: %v", file, err)
		}
	}
}

// TestFileOfValues writes random values into a file and reads them: they are those that Decode reads.
func TestFileOfValues(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var items []string
	var want strings.Builder
	for n := range 30 {
		v := randomValue(r, Kind(n%6))
		body, _ := v.append(nil)
		v, err := Decode(body, hugeBudget)
		require.NoError(t, err)
		key := fmt.Sprintf("key:%d:%s", n, randomString(r))
		items = append(items, string(body[:1])+string(AppendString(nil, []byte(key)))+string(body[1:]))
		fmt.Fprintf(&want, "0 %q %s\n", key, text(v))
	}
	file := rdbFile(12, items...)
	for name, reader := range map[string]io.Reader{
		"at once": strings.NewReader(file), "in halves": iotest.HalfReader(strings.NewReader(file)),
		"end with the last bytes": iotest.DataErrReader(strings.NewReader(file)),
	} {
		got, err := readFile(reader, int64(len(file)), hugeBudget)
		if err != nil || got != want.String() {
			t.Errorf("%s: %v, the same: %v", name, err, got == want.String())
		}
	}
	// Every bit counts.
	small := rdbFile(12, items[0], "\x10"+str("h")+str(listpack("f", 5, "g", "v")),
		"\xfc"+le64(1<<40)+"\x05"+str("z")+"\x01"+str("m")+le64(1<<62), "\x0f"+str("x")+"\x01"+node+"\x02\x07\x00\x00")
	for range 500 {
		bad := []byte(small)
		bad[9+r.IntN(len(bad)-9)] ^= 1 << r.IntN(8)
		if _, err := readFile(bytes.NewReader(bad), int64(len(bad)), hugeBudget); err == nil {
			t.Fatal("a changed bit was not noticed")
		}
	}
}

// TestFileMemory: a length that is wrong costs no memory, whether or not the size of the file is known.
func TestFileMemory(t *testing.T) {
	head := "REDIS0009"
	const long = "\x80\x30\x00\x00\x00" // 800 MB
	for name, item := range map[string]string{
		"string": "\x00\x01a" + long + "xyz", "name": "\x00" + long + "xyz", "compressed": "\x00\x01a\xc3" + long +
			long + "xyz",
		"list": "\x01\x01a" + long + "\x01x", "hash": "\x04\x01a" + long + "\x01x", "zset": "\x05\x01a" + long +
			"\x01x", "listpack": "\x10\x01a" + long + "xyz",
		"stream": "\x0f\x01a" + long + "\x01x", "function": "\xf5" + long + "xyz", "auxiliary field": "\xfa" + long + "xyz",
	} {
		for _, size := range []int64{-1, int64(len(head) + len(item)), 1 << 40} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := readFile(strings.NewReader(head+item), size, 1<<30)
			runtime.ReadMemStats(&after)
			if err == nil {
				t.Errorf("%s: accepted", name)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
				t.Errorf("%s, size %d: %d bytes were allocated", name, size, used)
			}
		}
	}
}

// FuzzFile reads anything. What it makes of it does not depend on how the bytes arrive.
func FuzzFile(f *testing.F) {
	r := rand.New(rand.NewPCG(7, 8))
	for n := range 12 {
		body, _ := randomValue(r, Kind(n%6)).append(nil)
		if len(body) < 2000 {
			f.Add([]byte(rdbFile(12, string(body[:1])+str("key")+string(body[1:]))))
		}
	}
	for _, items := range [][]string{
		{"\xfa" + str("a") + str("b"), "\xfe\x01\xfb\x01\x01", "\xfc" + le64(1), "\xf8\x05", "\xf9\x05", "\x00\x01a\x01b"},
		{"\xf4\x01\x01\x01", "\xf5" + str("#!lua name=l"), "\xfd" + le32(1),
			"\x01\x01l\x00"}, {"\xf7\x01"}, {"\xf6\x01"}, {"\x07\x01a"},
	} {
		f.Add([]byte(rdbFile(9, items...)))
	}
	f.Add([]byte("REDIS0009\x00\x01a\x80\x30\x00\x00\x00xyz"))
	f.Fuzz(func(t *testing.T, b []byte) {
		want, err := readFile(bytes.NewReader(b), int64(len(b)), fuzzBudget)
		if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTooLarge) &&
			!errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrNoRDB) && !errors.Is(err, ErrChecksum) {
			t.Fatalf("error of another kind: %v", err)
		}
		got, again := readFile(iotest.OneByteReader(bytes.NewReader(b)), int64(len(b)), fuzzBudget)
		if got != want || fmt.Sprint(again) != fmt.Sprint(err) {
			t.Fatalf("%q, %v\nbyte by byte %q, %v", want, err, got, again)
		}
	})
}
