package command

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
)

// splitScan returns the cursor and the elements of the reply of a scan.
func splitScan(t testing.TB, reply string) (cursor string, elems []string) {
	t.Helper()
	lines := strings.Split(reply, "\r\n")
	if len(lines) < 5 || lines[0] != "*2" {
		t.Fatalf("reply %q", reply)
	}
	for i := 5; i < len(lines); i += 2 {
		elems = append(elems, lines[i])
	}
	if lines[3] != "*"+strconv.Itoa(len(elems)) {
		t.Fatalf("reply %q has %d elements", reply, len(elems))
	}
	return lines[2], elems
}

// scanAll runs SCAN, or a scan of a key such as "HSCAN k", to its end and returns all elements, in order.
func scanAll(t testing.TB, db *engine.DB, command string, options ...string) (found []string) {
	t.Helper()
	cursor := "0"
	for range 10000 {
		var elems []string
		cursor, elems = splitScan(t, do(t, db, append(append(strings.Fields(command), cursor), options...)...))
		found = append(found, elems...)
		if cursor == "0" {
			return found
		}
	}
	t.Fatalf("%s %v does not end", command, options)
	return nil
}

func TestScan(t *testing.T) {
	db := enginetest.Open(t)
	var all []string
	for i := range 100 {
		k := fmt.Sprintf("key:%03d", i)
		all = append(all, k)
		do(t, db, "SET", k, "v")
		do(t, db, "SET", fmt.Sprintf("gone:%03d", i), "v", "PX", "1")
	}
	putHash(t, db, "hash", "f")
	putCollection(t, db, "emptied", cf.TypeHash)
	for text := do(t, db, "EXISTS", "gone:099"); text != ":0\r\n"; text = do(t, db, "EXISTS", "gone:099") {
	}
	both := append([]string{"hash"}, all...)
	for _, tt := range []struct {
		options string
		want    []string
	}{
		{"", both},
		{"COUNT 1", both},
		{"COUNT 7", both},
		{"COUNT 101", both},
		{"COUNT 1000", both},
		{"COUNT 9223372036854775807", both},
		{"MATCH *", both},
		{"MATCH key:*", all},
		{"MATCH key:05? COUNT 3", all[50:60]},
		{"MATCH *7 COUNT 5", []string{"key:007", "key:017", "key:027", "key:037", "key:047", "key:057", "key:067",
			"key:077", "key:087", "key:097"}},
		{"MATCH key:042", []string{"key:042"}},
		{"MATCH gone:*", nil},
		{"MATCH nothing", nil},
		{"TYPE string", all},
		{"TYPE HASH COUNT 4", []string{"hash"}},
		{"TYPE zset", nil},
		{"TYPE what", nil},
		{"MATCH *9 TYPE hash", nil},
	} {
		if got := scanAll(t, db, "SCAN", strings.Fields(tt.options)...); !slices.Equal(got, tt.want) {
			t.Errorf("SCAN %s: %q, want %q", tt.options, got, tt.want)
		}
	}
	for _, tt := range []struct {
		pattern string
		want    int
	}{{"*", 101}, {"key:*", 100}, {"key:04[0-4]", 5}, {"*h", 1}, {"key:042", 1}, {"gone:*", 0}, {"emptied", 0}, {"", 0}} {
		if got := do(t, db, "KEYS", tt.pattern); !strings.HasPrefix(got, fmt.Sprintf("*%d\r\n", tt.want)) {
			t.Errorf("KEYS %s: %.80q, want %d", tt.pattern, got, tt.want)
		}
	}
}

func TestScanErrors(t *testing.T) {
	invalid := "-ERR invalid cursor\r\n"
	converse(t, []exchange{
		{"SCAN abc", invalid, ""},
		{"SCAN -", invalid, ""},
		{"SCAN 0x", invalid, ""},
		{"SCAN _k", invalid, ""},
		{"SCAN 18446744073709551616", invalid, ""},
		{"SCAN abc COUNT 0", invalid, ""},
		{"SCAN 0 COUNT", replySyntax, ""},
		{"SCAN 0 COUNT 0", replySyntax, ""},
		{"SCAN 0 COUNT -5", replySyntax, ""},
		{"SCAN 0 COUNT x", replyNotInteger, ""},
		{"SCAN 0 MATCH", replySyntax, ""},
		{"SCAN 0 NOVALUES", replySyntax, ""},
		{"SCAN 0 WHAT 1", replySyntax, ""},
		{"DEL hash", ":1\r\n", ""},
		{"SCAN 0", "*2\r\n$1\r\n0\r\n*0\r\n", ""},
		{"SCAN 18446744073709551615", "*2\r\n$1\r\n0\r\n*0\r\n", ""},
		{`SCAN ""`, "*2\r\n$1\r\n0\r\n*0\r\n", ""},
		{"KEYS *", "*0\r\n", ""},
		{"RANDOMKEY", replyNull, "_\r\n"},
		{"SET only v", "+OK\r\n", ""},
		{"RANDOMKEY", bulkReply("only"), ""},
		{"SCAN -00", "*2\r\n$1\r\n0\r\n*1\r\n" + bulkReply("only"), ""},
	})
}

func TestHScan(t *testing.T) {
	db := enginetest.Open(t)
	var fields []string
	for i := range 50 {
		fields = append(fields, fmt.Sprintf("f%02d", i))
	}
	putHash(t, db, "h", append([]string{""}, fields...)...)
	putHash(t, db, "h2", "z")
	for _, tt := range []struct {
		options string
		want    []string
	}{
		{"NOVALUES", append([]string{""}, fields...)},
		{"NOVALUES COUNT 1", append([]string{""}, fields...)},
		{"NOVALUES COUNT 51", append([]string{""}, fields...)},
		{"MATCH f1* NOVALUES COUNT 3", fields[10:20]},
		{"MATCH f17 NOVALUES", fields[17:18]},
		{"MATCH *7 NOVALUES COUNT 3", []string{"f07", "f17", "f27", "f37", "f47"}},
		{"MATCH x* NOVALUES", nil},
		{"MATCH f0[12]", []string{"f01", "v:f01", "f02", "v:f02"}},
	} {
		if got := scanAll(t, db, "HSCAN h", strings.Fields(tt.options)...); !slices.Equal(got, tt.want) {
			t.Errorf("HSCAN h %s: %q, want %q", tt.options, got, tt.want)
		}
	}
}

func TestTextCursors(t *testing.T) {
	SetTextCursors(true)
	defer SetTextCursors(false)
	db := enginetest.Open(t)
	for _, k := range []string{"0", "a", "b", "c"} {
		do(t, db, "SET", k, "v")
	}
	if cursor, _ := splitScan(t, do(t, db, "SCAN", "0", "COUNT", "2")); cursor != "_a" {
		t.Errorf("cursor %q", cursor)
	}
	if _, elems := splitScan(t, do(t, db, "SCAN", "_a", "COUNT", "2")); !slices.Equal(elems, []string{"b", "c"}) {
		t.Errorf("after a: %q", elems)
	}
	if got := scanAll(t, db, "SCAN", "COUNT", "1"); !slices.Equal(got, []string{"0", "a", "b", "c"}) {
		t.Errorf("all: %q", got)
	}
}

// TestLostCursors: a scan that continues from any issued cursor skips no element, even if the position of the cursor is
// no longer stored, or belongs to another key or another kind of scan.
func TestLostCursors(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var r cursors
	var issued []uint64
	var lasts [][]byte
	for i := range 3 * cursorSlots {
		last := make([]byte, rng.IntN(8))
		for j := range last {
			last[j] = byte(rng.IntN(4) * 85)
		}
		if i%100 == 0 { // long positions: the memory is bounded, too
			last = append(last, make([]byte, 1<<16)...)
		}
		issued = append(issued, r.Next(scanHash, "ns", []byte("k"), last))
		lasts = append(lasts, last)
	}
	if r.bytes > cursorMemory {
		t.Errorf("the ring holds %d bytes", r.bytes)
	}
	held := 0
	for _, s := range r.slots {
		held += len(s.last)
	}
	if held != r.bytes {
		t.Errorf("the ring holds %d bytes and counts %d", held, r.bytes)
	}
	exact := 0
	for i, c := range issued {
		if c == 0 || c > math.MaxInt64 {
			t.Fatalf("cursor %d", c)
		}
		next := append(bytes.Clone(lasts[i]), 0)
		for _, from := range [][]byte{r.Resolve(scanHash, "ns", []byte("k"), c),
			new(cursors).Resolve(scanHash, "ns", []byte("k"), c),
			r.Resolve(scanHash, "ns", []byte("other"), c), r.Resolve(scanSet, "ns", []byte("k"),
				c), r.Resolve(scanKeys, "ns", nil, c)} {
			if bytes.Compare(from, next) > 0 {
				t.Fatalf("cursor after %q leads to %q", lasts[i], from)
			}
		}
		if bytes.Equal(r.Resolve(scanHash, "ns", []byte("k"), c), next) {
			exact++
		}
	}
	if exact < 100 || exact > cursorSlots {
		t.Errorf("the positions of %d cursors are still stored", exact)
	}
	newest := len(issued) - 1
	if got := r.Resolve(scanHash, "ns", []byte("k"), issued[newest]); !bytes.Equal(got,
		append(bytes.Clone(lasts[newest]), 0)) {
		t.Errorf("the newest cursor leads to %q", got)
	}
}

// TestCursorWrap: cursors work when the numbers of the tickets wrap around.
func TestCursorWrap(t *testing.T) {
	var r cursors
	r.Next(scanKeys, "ns", nil, []byte("first"))
	r.evict()
	r.ticket, r.oldest = math.MaxUint32-2, math.MaxUint32-2
	for i := range 6 {
		last := fmt.Appendf(nil, "key %d", i)
		c := r.Next(scanKeys, "ns", nil, last)
		if got := r.Resolve(scanKeys, "ns", nil, c); string(got) != string(last)+"\x00" {
			t.Errorf("%d: %q", i, got)
		}
	}
	if r.ticket-r.oldest != 6 {
		t.Errorf("%d cursors are held", r.ticket-r.oldest)
	}
}

// TestCursorsAreExact: a cursor is exactly representable as a float64, to which some clients convert it.
func TestCursorsAreExact(t *testing.T) {
	var r cursors
	r.Next(scanKeys, "ns", nil, []byte("first"))
	r.evict()
	r.ticket, r.oldest = math.MaxUint32, math.MaxUint32
	for _, kind := range []scanKind{scanKeys, scanHash, scanSet, scanZSet} {
		if c := r.Next(kind, "ns", []byte("k"), []byte("\xff\xff\xff\xff\xff")); c >= 1<<53 {
			t.Errorf("kind %d: %d", kind, c)
		}
	}
}

func FuzzParseCursor(f *testing.F) {
	for _, s := range []string{"", "0", "-1", "+1", "00", "18446744073709551615", "18446744073709551616", " 1",
		"1\x00x", "_a", "-"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		cur, err := parseCursor(b)
		if err != nil {
			return
		}
		text, _, _ := strings.Cut(string(b), "\x00")
		want, err := strconv.ParseUint(strings.TrimLeft(text, "+-"), 10, 64)
		if text != "" && err != nil {
			t.Fatalf("%q is not a number, but was parsed as %d", b, cur.number)
		}
		if strings.HasPrefix(text, "-") {
			want = -want
		}
		if cur.number != want {
			t.Fatalf("%q: %d, want %d", b, cur.number, want)
		}
	})
}
