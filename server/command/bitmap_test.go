package command

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
)

// script runs commands and compares their RESP2 replies. A line is a command, split at blanks, and its reply.
func script(t *testing.T, db *engine.DB, lines [][2]string) {
	t.Helper()
	for _, l := range lines {
		if got := do(t, db, strings.Fields(l[0])...); got != l[1] {
			t.Errorf("%s: %q, want %q", l[0], got, l[1])
		}
	}
}

const (
	badOffset = "-ERR bit offset is not an integer or out of range\r\n"
	badInt    = "-ERR value is not an integer or out of range\r\n"
	badSyntax = "-ERR syntax error\r\n"
)

func TestBitmapCommands(t *testing.T) {
	db := enginetest.Open(t)
	script(t, db, [][2]string{
		{"SETBIT b 7 1", ":0\r\n"},
		{"SETBIT b 7 0", ":1\r\n"},
		{"SETBIT b 4294967295 1", ":0\r\n"},
		{"GETBIT b 4294967295", ":1\r\n"},
		{"TYPE b", "+bitmap\r\n"},
		{"STRLEN b", ":536870912\r\n"},
		{"BITCOUNT b", ":1\r\n"},
		{"BITPOS b 1", ":4294967295\r\n"},
		{"BITPOS b 0", ":0\r\n"},
		{"SETBIT b 4294967296 1", badOffset},
		{"GETBIT b 4294967296", badOffset},
		{"GETBIT b -1", badOffset},
		{"GETBIT b x", badOffset},
		{"SETBIT b 0 2", "-ERR bit is not an integer or out of range\r\n"},
		{"SETBIT b 0 x", "-ERR bit is not an integer or out of range\r\n"},
		{"BITFIELD b GET u8 4294967296", badOffset},
		{"BITFIELD b GET u8 #536870911", "*1\r\n:128\r\n"}, // Kvrocks's order of bits, see package bitmap
		{"BITFIELD b GET u8 #536870912", badOffset},
		{"BITFIELD_RO b SET u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand\r\n"},
		{"BITFIELD_RO b GET u64 0",
			"-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.\r\n"},
		{"BITFIELD b OVERFLOW x", "-ERR Invalid OVERFLOW type specified\r\n"},
		{"BITFIELD b OVERFLOW", badSyntax},
		{"BITFIELD b GET u8", badSyntax},
		{"BITFIELD b SET u8 0", badSyntax},
		{"BITFIELD b INCRBY u8 0 x", badInt},
		{"BITFIELD c OVERFLOW FAIL INCRBY u2 0 4 INCRBY u2 2 3 OVERFLOW SAT INCRBY u2 2 9 OVERFLOW WRAP INCRBY u2 2 1 GET " +
			"i8 0", "*5\r\n$-1\r\n:3\r\n:3\r\n:0\r\n:0\r\n"},
		{"BITOP NOT d c", ":1\r\n"},
		{"GET d", "$1\r\n\xff\r\n"},
		{"BITOP NOT d c b", "-ERR BITOP NOT must be called with a single source key.\r\n"},
		{"BITOP NOR d c b", badSyntax},
		{"MSET x \xf0 y \x3c z \x0f", "+OK\r\n"},
		{"BITOP DIFF d x", "-ERR BITOP DIFF must be called with at least two source keys.\r\n"},
		{"BITOP diff1 d x", "-ERR BITOP DIFF1 must be called with at least two source keys.\r\n"},
		{"BITOP ANDOR d x", "-ERR BITOP ANDOR must be called with at least two source keys.\r\n"},
		{"BITOP DIFF d x y none", ":1\r\n"},
		{"GET d", "$1\r\n\xc0\r\n"},
		{"BITOP DIFF1 d x y z", ":1\r\n"},
		{"GET d", "$1\r\n\x0f\r\n"},
		{"BITOP ANDOR d y x z", ":1\r\n"},
		{"GET d", "$1\r\n\x3c\r\n"},
		{"BITOP ONE d x y z", ":1\r\n"},
		{"GET d", "$1\r\n\xc3\r\n"},
		{"BITOP ONE d x", ":1\r\n"},
		{"GET d", "$1\r\n\xf0\r\n"},
		{"BITOP DIFF d none x", ":1\r\n"},
		{"GET d", "$1\r\n\x00\r\n"},
		{"BITOP DIFF1 d none x", ":1\r\n"},
		{"GET d", "$1\r\n\xf0\r\n"},
		{"SETBIT big 20000 1", ":0\r\n"},
		{"BITOP DIFF d big x", ":2501\r\n"},
		{"BITCOUNT d", ":1\r\n"},
		{"BITOP DIFF1 d big x", ":2501\r\n"},
		{"BITCOUNT d", ":4\r\n"},
		{"BITOP ONE d big x y", ":2501\r\n"},
		{"BITCOUNT d", ":5\r\n"},
		{"BITOP ANDOR d big x", ":2501\r\n"},
		{"BITCOUNT d", ":0\r\n"},
		{"BITOP OR d none", ":0\r\n"},
		{"EXISTS d", ":0\r\n"},
		{"HSET h f v", ":1\r\n"},
		{"BITOP OR d c h", wrongType + "\r\n"},
		{"SETBIT h 0 1", wrongType + "\r\n"}, {"GETBIT h 0", wrongType + "\r\n"}, {"BITCOUNT h", wrongType +
			"\r\n"}, {"BITPOS h 1", wrongType + "\r\n"}, {"BITFIELD h GET u8 0", wrongType + "\r\n"},
		{"BITOP OR h c", ":1\r\n"}, // the destination may have any type
		{"TYPE h", "+bitmap\r\n"},
	})
	// As in Redis 7.2, errors of the bit come before errors of the key, and these before errors of the range. (Later
	// versions check the range first.)
	for _, c := range []struct{ line, missing, wrong string }{
		{"BITCOUNT %s x 1", ":0\r\n", badInt},
		{"BITCOUNT %s 1 x", ":0\r\n", badInt},
		{"BITCOUNT %s 1", ":0\r\n", badSyntax},
		{"BITCOUNT %s 1 2 BITS", ":0\r\n", badSyntax},
		{"BITCOUNT %s -2 -1 BITS", ":0\r\n", badSyntax},
		{"BITCOUNT %s -1 -2 BITS", ":0\r\n", ":0\r\n"},
		{"BITCOUNT %s 1 2 BIT x", ":0\r\n", badSyntax},
		{"BITPOS %s x", badInt, badInt},
		{"BITPOS %s 2", "-ERR The bit argument must be 1 or 0.\r\n", "-ERR The bit argument must be 1 or 0.\r\n"},
		{"BITPOS %s 1 x", ":-1\r\n", badInt},
		{"BITPOS %s 0 x", ":0\r\n", badInt},
		{"BITPOS %s 1 0 x", ":-1\r\n", badInt},
		{"BITPOS %s 1 0 1 BITS", ":-1\r\n", badSyntax},
		{"BITPOS %s 1 0 1 BIT x", ":-1\r\n", badSyntax},
	} {
		script(t, db, [][2]string{{fmt.Sprintf(c.line, "none"), c.missing}, {fmt.Sprintf(c.line, "b"), c.wrong}})
	}
	script(t, db, [][2]string{
		{"RPUSH list a", ":1\r\n"},
		{"BITCOUNT list x 1", wrongType + "\r\n"},
		{"BITPOS list 1 x", wrongType + "\r\n"},
	})
	for _, c := range []struct{ line, want string }{
		{"BITFIELD c GET u2 2", "*1\r\n:0\r\n"},
		{"BITFIELD c OVERFLOW FAIL SET u2 2 9", "*1\r\n_\r\n"},
		{"GET d", "_\r\n"},
		{"GETBIT b 4294967295", ":1\r\n"},
	} {
		if got := do3(t, db, strings.Fields(c.line)...); got != c.want {
			t.Errorf("RESP3 %s: %q, want %q", c.line, got, c.want)
		}
	}
}

// TestStringCommandsOnBitmap: string commands see a bitmap as the string that it is in Redis. A command that changes
// the bitmap makes the key a string.
func TestStringCommandsOnBitmap(t *testing.T) {
	db := enginetest.Open(t)
	// "B" is 0100 0010, "a" is 0110 0001.
	fill := func(key string) [][2]string {
		return [][2]string{{"DEL " + key, do(t, db, "EXISTS", key)}, {"SETBIT " + key + " 1 1", ":0\r\n"},
			{"SETBIT " + key + " 6 1", ":0\r\n"}, {"SETBIT " + key + " 9 1", ":0\r\n"},
			{"SETBIT " + key + " 10 1", ":0\r\n"}, {"SETBIT " + key + " 15 1", ":0\r\n"}, {"TYPE " + key, "+bitmap\r\n"}}
	}
	for _, c := range []struct {
		line, want, after, typ string
	}{
		{"GET k", "$2\r\nBa\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"STRLEN k", ":2\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"GETRANGE k 1 -1", "$1\r\na\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"GETRANGE k -1 -2", "$0\r\n\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"SUBSTR k 0 0", "$1\r\nB\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"MGET k none k", "*3\r\n$2\r\nBa\r\n$-1\r\n$2\r\nBa\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"MGET k", "*1\r\n$2\r\nBa\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"LCS k k", "$2\r\nBa\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"SET k v GET", "$2\r\nBa\r\n", "$1\r\nv\r\n", "string"},
		{"SET k v NX GET", "$2\r\nBa\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"SET k v XX", "+OK\r\n", "$1\r\nv\r\n", "string"},
		{"SETNX k v", ":0\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"GETSET k v", "$2\r\nBa\r\n", "$1\r\nv\r\n", "string"},
		{"GETDEL k", "$2\r\nBa\r\n", "$-1\r\n", "none"},
		{"GETEX k", "$2\r\nBa\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"GETEX k EX 100", "$2\r\nBa\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"GETEX k PERSIST", "$2\r\nBa\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"GETEX k PXAT 1", "$2\r\nBa\r\n", "$-1\r\n", "none"},
		{"GETEX k EX x", badInt, "$2\r\nBa\r\n", "bitmap"},
		{"APPEND k c", ":3\r\n", "$3\r\nBac\r\n", "string"},
		{"SETRANGE k 1 xy", ":3\r\n", "$3\r\nBxy\r\n", "string"},
		{"INCR k", badInt, "$2\r\nBa\r\n", "bitmap"},
		{"INCRBYFLOAT k 1", "-ERR value is not a valid float\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"CAS k Ba x", wrongType + "\r\n", "$2\r\nBa\r\n", "bitmap"}, // a command of Kvrocks, with Kvrocks's reply
		{"CAD k Ba", wrongType + "\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"BITOP OR k k", ":2\r\n", "$2\r\nBa\r\n", "bitmap"},
		{"RENAME k k2", "+OK\r\n", "$-1\r\n", "none"},
		{"COPY k k2 REPLACE", ":1\r\n", "$2\r\nBa\r\n", "bitmap"},
	} {
		script(t, db, fill("k"))
		script(t, db, [][2]string{{c.line, c.want}, {"GET k", c.after}, {"TYPE k", "+" + c.typ + "\r\n"}})
	}
	script(t, db, [][2]string{
		{"GET k2", "$2\r\nBa\r\n"},
		{"OBJECT ENCODING k2", "$3\r\nraw\r\n"},
		{"SETRANGE k2 0 ", "-ERR wrong number of arguments for 'setrange' command\r\n"},
		// The bits 0011 0001 are the string "1", a number.
		{"SETBIT n 2 1", ":0\r\n"}, {"SETBIT n 3 1", ":0\r\n"}, {"SETBIT n 7 1", ":0\r\n"},
		{"EXPIREAT n 4102444800", ":1\r\n"},
		{"INCRBY n 9", ":10\r\n"},
		{"TYPE n", "+string\r\n"},
		{"EXPIRETIME n", ":4102444800\r\n"},
		{"GETEX n PERSIST", "$2\r\n10\r\n"},
		{"SETBIT n 15 1", ":0\r\n"}, // in place
		{"TYPE n", "+string\r\n"},
		{"GET n", "$2\r\n11\r\n"},
		{"SETBIT t 0 1", ":0\r\n"},
		{"GETEX t EXAT 4102444800", "$1\r\n\x80\r\n"},
		{"EXPIRETIME t", ":4102444800\r\n"},
		{"APPEND t x", ":2\r\n"},
		{"EXPIRETIME t", ":4102444800\r\n"},
	})
	script(t, db, fill("k"))
	if got := do(t, db, "SETRANGE", "k", "9", ""); got != ":2\r\n" {
		t.Errorf("SETRANGE of nothing: %q", got)
	}
	script(t, db, [][2]string{{"TYPE k", "+bitmap\r\n"}})
}

// bitmapSettings have a value of max-bitmap-to-string-mb, and count how often a setting is read.
type bitmapSettings struct {
	testSettings
	limit string
	asked int
}

func (s *bitmapSettings) Get(name string) (string, bool) {
	s.asked++
	return s.limit, name == "max-bitmap-to-string-mb"
}

// TestBitmapLimitSetting: max-bitmap-to-string-mb is read for bitmaps only, and limits their size.
func TestBitmapLimitSetting(t *testing.T) {
	db := enginetest.Open(t)
	settings := &bitmapSettings{limit: "1"}
	srv := testServer(db)
	srv.Settings = settings
	script(t, db, [][2]string{{"SETBIT fits 8388607 1", ":0\r\n"}, {"SETBIT long 8388608 1", ":0\r\n"},
		{"SET s text", "+OK\r\n"},
		{"HSET h f v", ":1\r\n"}, {"SIADD si 1", ":1\r\n"}, {"PFADD hll a", ":1\r\n"}, {"BF.ADD bf a", ":1\r\n"}})
	const null, end = "$-1\r\n", "$4\r\ntext\r\n"
	for _, c := range []struct{ line, want string }{
		{"GET s", end}, {"MGET s none", "*2\r\n" + end + null}, {"GETRANGE s 0 -1", end}, {"STRLEN s",
			":4\r\n"}, {"GETEX s", end}, {"GETSET s text", end}, {"GET none", null},
		{"STRLEN long", ":1048577\r\n"}, {"SETRANGE s 0 text", ":4\r\n"}, {"LCS s s", end}, {"GETDEL s", end},
	} {
		if got := doOn(t, srv, 2, strings.Fields(c.line)...); got != c.want {
			t.Errorf("%s: %q, want %q", c.line, got, c.want)
		}
	}
	for _, key := range []string{"h", "si", "bf"} {
		for _, line := range []string{"GET", "STRLEN", "GETRANGE * 0 1", "GETSET * v", "SET * v GET", "GETEX",
			"GETEX * EX 5", "GETDEL", "APPEND * x", "SETRANGE * 0 x", "INCR", "INCRBYFLOAT * 1", "LCS * *"} {
			if !strings.Contains(line, "*") {
				line += " *"
			}
			want := wrongType + "\r\n"
			if line == "LCS * *" {
				want = "-ERR The specified keys must contain string values\r\n"
			}
			line = strings.ReplaceAll(line, "*", key)
			if got := doOn(t, srv, 2, strings.Fields(line)...); got != want {
				t.Errorf("%s: %q, want %q", line, got, want)
			}
		}
		if got := doOn(t, srv, 2, "MGET", key); got != "*1\r\n"+null {
			t.Errorf("MGET %s: %q", key, got)
		}
	}
	if settings.asked > 0 {
		t.Errorf("without a bitmap, settings were read %d times", settings.asked)
	}
	for key, want := range map[string]string{"fits": "$1048576\r\n", "long": "-ERR Operation aborted"} {
		if got := doOn(t, srv, 2, "GET", key); !strings.HasPrefix(got, want) {
			t.Errorf("GET %s: %.40q", key, got)
		}
	}
}

// TestBitmapLimit: without the setting, string commands refuse a bitmap of more than 16 MiB.
func TestBitmapLimit(t *testing.T) {
	db := enginetest.Open(t)
	const tooLong = "-ERR Operation aborted: The size of the bitmap string exceeds the configuration item " +
		"max-bitmap-to-string-mb\r\n"
	script(t, db, [][2]string{
		{"SETBIT b 134217727 1", ":0\r\n"}, // the last bit of 16 MiB
		{"SETBIT c 134217728 1", ":0\r\n"},
		{"STRLEN c", ":16777217\r\n"},
		{"GET c", tooLong}, {"GETSET c v", tooLong}, {"GETDEL c", tooLong}, {"GETEX c", tooLong}, {"SET c v GET",
			tooLong}, {"MGET c", tooLong},
		{"APPEND c x", tooLong}, {"SETRANGE c 0 x", tooLong}, {"INCR c", tooLong}, {"GETRANGE c 0 -1", tooLong},
		{"GETRANGE c -2 -1", "$2\r\n\x00\x80\r\n"},
		{"TYPE c", "+bitmap\r\n"},
		{"SET c v", "+OK\r\n"},
		{"GET c", "$1\r\nv\r\n"},
	})
	if got := do(t, db, "GET", "b"); !strings.HasPrefix(got, "$16777216\r\n\x00") ||
		!strings.HasSuffix(got, "\x00\x01\r\n") || len(got) != 16<<20+13 {
		t.Errorf("a bitmap of 16 MiB: %.20q, %d bytes", got, len(got))
	}
}

// FuzzParseFieldOps: operations that parse without an error are within the bounds of a field.
func FuzzParseFieldOps(f *testing.F) {
	f.Add("GET u8 0 SET i64 #3 -1 OVERFLOW SAT INCRBY u63 4294967295 9223372036854775807")
	f.Add("OVERFLOW FAIL OVERFLOW wrap get i1 #67108863")
	f.Add("SET u64 0 1")
	f.Add("GET u8 #18446744073709551615 GET i01 1")
	f.Fuzz(func(t *testing.T, line string) {
		ops, err := parseFieldOps(bytesOf(strings.Split(line, " ")...))
		if err != nil {
			if _, ok := err.(*engine.Error); !ok {
				t.Errorf("%v is not an error reply", err)
			}
			return
		}
		for _, op := range ops {
			maxBits := uint8(63)
			if op.Type.Signed {
				maxBits = 64
			}
			if op.Type.Bits < 1 || op.Type.Bits > maxBits || op.Offset > 1<<32-1 {
				t.Errorf("%+v", op)
			}
		}
	})
}
