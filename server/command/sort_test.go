package command

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/internal/require"
)

func TestSort(t *testing.T) {
	db := enginetest.Open(t)
	for _, line := range []string{"RPUSH l 3 1 2", "SET w_1 5", "HSET h_2 f x", "RPUSH big 1e400 1",
		"RPUSH wide 99999999999999999999 3 9223372036854775807",
		"SADD s b c a", "SETBIT bits_1 2 1"} {
		do(t, db, strings.Fields(line)...)
	}
	const noNumber = "-ERR One or more scores can't be converted into double\r\n"
	for _, tt := range []struct{ command, resp2, resp3 string }{
		{"SORT l", "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n", ""},
		{"SORT_RO l DESC LIMIT 0 2", "*2\r\n$1\r\n3\r\n$1\r\n2\r\n", ""},
		{"SORT missing", "*0\r\n", ""},
		{"SORT l GET w_* GET h_*->f GET #",
			"*9\r\n$1\r\n5\r\n$-1\r\n$1\r\n1\r\n$-1\r\n$1\r\nx\r\n$1\r\n2\r\n$-1\r\n$-1\r\n$1\r\n3\r\n",
			"*9\r\n$1\r\n5\r\n_\r\n$1\r\n1\r\n_\r\n$1\r\nx\r\n$1\r\n2\r\n_\r\n_\r\n$1\r\n3\r\n"},
		{"SORT l GET w_* STORE d", ":3\r\n", ""},
		{"LRANGE d 0 -1", "*3\r\n$1\r\n5\r\n$0\r\n\r\n$0\r\n\r\n", ""},
		{"SORT_RO l STORE d", "-ERR syntax error\r\n", ""},
		{"SORT w_1", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", ""},
		{"SORT h_2 BY nosort", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n", ""},
		{"SORT l LIMIT 1", "-ERR syntax error\r\n", ""},
		{"SORT l LIMIT 1 x", "-ERR value is not an integer or out of range\r\n", ""},
		{"SORT l BY h_*->f", noNumber, ""},
		{"SORT big", noNumber, ""}, // after this, Redis 7.0 also replies with the error for valid numbers
		{"SORT wide", "*3\r\n$1\r\n3\r\n$19\r\n9223372036854775807\r\n$20\r\n99999999999999999999\r\n", ""},
		// Without sorting, a set is in the order of its bytes. DESC reverses this order only with STORE and in scripts.
		{"SORT s BY nosort", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n", ""},
		{"SORT s BY nosort DESC LIMIT 0 2", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", ""},
		{"SORT_RO s BY nosort DESC", "*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n", ""},
		{"SORT s BY nosort LIMIT 1 1", "*1\r\n$1\r\nb\r\n", ""},
		{"SORT s BY nosort DESC LIMIT 0 2 STORE d", ":2\r\n", ""},
		{"LRANGE d 0 -1", "*2\r\n$1\r\nc\r\n$1\r\nb\r\n", ""},
		// A pattern reads a bitmap as a string.
		{"SORT l GET bits_* LIMIT 0 1", "*1\r\n$1\r\n \r\n", ""},
	} {
		if got := do(t, db, strings.Fields(tt.command)...); got != tt.resp2 {
			t.Errorf("%s: %q, want %q", tt.command, got, tt.resp2)
		}
		want := tt.resp3
		if want == "" {
			want = tt.resp2
		}
		if got := do3(t, db, strings.Fields(tt.command)...); got != want {
			t.Errorf("%s, RESP3: %q, want %q", tt.command, got, want)
		}
	}
}

func TestSortPattern(t *testing.T) {
	for _, tt := range []struct{ pattern, key, field string }{
		{"#", "self", ""},
		{"#\x00x", "self", ""},
		{"##", "", ""},
		{"", "", ""},
		{"plain", "", ""},
		{"*", "E", ""},
		{"a*b", "aEb", ""},
		{"a*b*c", "aEb*c", ""},
		{"a*->f", "aE", "f"},
		{"a*b->f", "aEb", "f"},
		{"a*->", "aE->", ""},
		{"a*->f->g", "aE", "f->g"},
		{"a->f*", "a->fE", ""},
		{"a->b*c->d", "a->bEc", "d"},
		{"*->*", "E", "*"},
		{"*->f\x00g", "E", "f\x00g"},
		{"*\x00->f", "E\x00->f", ""},
		{"a\x00*", "", ""},
		{"*->\x00f", "E->\x00f", ""},
	} {
		p := parseSortPattern([]byte(tt.pattern))
		key := ""
		switch {
		case p.self:
			key = "self"
		case p.star:
			key = string(p.appendKey(nil, []byte("E")))
		}
		if key != tt.key || string(p.field) != tt.field || (p.field != nil) != (tt.field != "") {
			t.Errorf("%q: key %q field %q", tt.pattern, key, p.field)
		}
	}
}

func FuzzSortPattern(f *testing.F) {
	for _, s := range []string{"#", "a*b->f", "*->", "\x00*", "*->*->"} {
		f.Add([]byte(s), []byte("e"))
	}
	f.Fuzz(func(t *testing.T, pattern, elem []byte) {
		p := parseSortPattern(pattern)
		if !p.star {
			return
		}
		if p.field != nil && len(p.field) == 0 {
			t.Fatal("an empty field")
		}
		want := len(pattern) - 1 + len(elem)
		if p.field != nil {
			want -= 2 + len(p.field)
		}
		if key := p.appendKey(nil, elem); len(key) != want {
			t.Fatalf("key %q of %d bytes, want %d", key, len(key), want)
		}
	})
}

// TestSortManyPatterns looks up more keys than fit into one batch: strings, hashes with and without expiries, and
// missing keys.
func TestSortManyPatterns(t *testing.T) {
	db := enginetest.Open(t)
	const n = 3*sortBatch + 7
	var want strings.Builder
	for i := range n {
		e := fmt.Sprintf("%04d", i)
		do(t, db, "RPUSH", "l", e)
		switch i % 4 {
		case 0:
			do(t, db, "SET", "k_"+e, "v"+e)
			fmt.Fprintf(&want, "$5\r\nv%s\r\n$-1\r\n", e)
		case 1:
			do(t, db, "HSET", "k_"+e, "f", "h"+e)
			fmt.Fprintf(&want, "$-1\r\n$5\r\nh%s\r\n", e)
		case 2:
			do(t, db, "HSET", "k_"+e, "f", e, "g", e)
			updateKey(t, db, "k_"+e, func(tx *engine.Tx) error {
				_, err := hash.Expire(tx, []byte("k_"+e), bytesOf("g"), 1<<45, hash.Always)
				return err
			})
			fmt.Fprintf(&want, "$-1\r\n$4\r\n%s\r\n", e)
		default:
			want.WriteString("$-1\r\n$-1\r\n")
		}
	}
	if got := do(t, db, "SORT", "l", "ALPHA", "GET", "k_*", "GET", "k_*->f"); got != fmt.Sprintf("*%d\r\n",
		2*n)+want.String() {
		t.Errorf("%.500q", got)
	}
}

// TestSortSeesItsTransaction: SORT sees keys of its patterns that were written earlier in the same transaction, and
// does not cache the values that it has read.
func TestSortSeesItsTransaction(t *testing.T) {
	db := enginetest.Open(t)
	lock := func() *engine.Tx {
		tx := db.NewTx()
		tx.Begin(cf.DefaultNamespace)
		for _, k := range []string{"l", "w_1"} {
			tx.AddLock([]byte(k), true)
		}
		require.NoError(t, tx.Acquire())
		return tx
	}
	// Several keys share a lock, in a way that differs from process to process. other must be a key whose lock the
	// transaction does not hold, so that another client can write it.
	tx, n := lock(), 2
	for tx.Holds(fmt.Append(nil, "w_", n)) {
		n++
	}
	tx.Release()
	other := fmt.Sprint("w_", n)
	do(t, db, "RPUSH", "l", "1", fmt.Sprint(n))
	do(t, db, "MSET", "w_1", "1", other, "2")
	tx = lock()
	defer tx.Release()
	run := func(line string) string {
		args := bytesOf(strings.Fields(line)...)
		spec, err := Resolve(args)
		require.NoError(t, err)
		return writeWith(t, db, func(c *Ctx) {
			c.Args, c.Tx, c.Spec, c.Sess = args, tx, spec, &Session{Namespace: cf.DefaultNamespace}
			require.NoError(t, spec.Handler(c))
		})
	}
	run("SET w_1 9")
	if got := run("SORT l BY w_* GET w_*"); got != "*2\r\n$1\r\n2\r\n$1\r\n9\r\n" {
		t.Errorf("%q", got)
	}
	do(t, db, "SET", other, "10") // another client
	if got := run("SORT l BY w_* GET w_*"); got != "*2\r\n$1\r\n9\r\n$2\r\n10\r\n" {
		t.Errorf("%q", got)
	}
}

func TestSortErrors(t *testing.T) {
	db := enginetest.Open(t)
	do(t, db, "RPUSH", "l", "1")
	do(t, db, "RPUSH", "dst", "kept")
	updateKey(t, db, "w_1", func(tx *engine.Tx) error {
		tx.Put(cf.Metadata, tx.NSKey([]byte("w_1")), []byte{0x82})
		return nil
	})
	updateKey(t, db, "h_1", func(tx *engine.Tx) error {
		rec := tx.Fresh([]byte("h_1"), cf.TypeHash)
		rec.Size = 1
		tx.Save(&rec, []byte{77})
		return nil
	})
	updateKey(t, db, "f_1", func(tx *engine.Tx) error {
		if err := hash.Restore(tx, []byte("f_1"), bytesOf("f", "v"), []uint64{1 << 45}); err != nil {
			return err
		}
		rec, err := tx.LoadAny([]byte("f_1"))
		tx.Put(cf.Default, tx.Subkey(&rec, []byte("f")), []byte("short"))
		return err
	})
	for _, tt := range []struct{ command, want string }{
		{"SORT l GET w_* STORE dst", `-ERR key "w_1": `},
		{"SORT l BY w_* STORE dst", `-ERR key "w_1": `},
		{"SORT l GET h_*->f STORE dst", `-ERR key "h_1": `},
		{"SORT l GET f_*->f STORE dst", `-ERR key "f_1": `},
	} {
		if got := do(t, db, strings.Fields(tt.command)...); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q", tt.command, got)
		}
	}
	if got := do(t, db, "LRANGE", "dst", "0", "-1"); got != "*1\r\n$4\r\nkept\r\n" {
		t.Errorf("the destination is %q", got)
	}
	cluster := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: true})
	do(t, cluster, "RPUSH", "l", "2", "1")
	for _, tt := range []struct{ command, want string }{
		{"SORT l", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"},
		{"SORT l BY nosort", "*2\r\n$1\r\n2\r\n$1\r\n1\r\n"},
		{"SORT l BY w_*", "-ERR BY option of SORT denied in cluster mode.\r\n"},
		{"SORT l GET #", "-ERR GET option of SORT denied in cluster mode.\r\n"},
	} {
		if got := do(t, cluster, strings.Fields(tt.command)...); got != tt.want {
			t.Errorf("%s: %q", tt.command, got)
		}
	}
}

// TestSortConcurrent sorts while other goroutines change and delete the keys of the patterns. Each value must be one
// that its key had.
func TestSortConcurrent(t *testing.T) {
	db := enginetest.Open(t)
	const n = 20
	for i := range n {
		do(t, db, "RPUSH", "l", fmt.Sprint(i))
	}
	var work sync.WaitGroup
	var stop atomic.Bool
	for w := range 3 {
		work.Go(func() {
			for i := 0; !stop.Load(); i++ {
				e := fmt.Sprint((i*7 + w) % n)
				switch i % 5 {
				case 0:
					do(t, db, "DEL", "w_"+e, "h_"+e)
				case 1:
					do(t, db, "SADD", "h_"+e, "a")
				default:
					do(t, db, "SET", "w_"+e, "5"+e)
					do(t, db, "DEL", "h_"+e)
					do(t, db, "HSET", "h_"+e, "f", "6"+e)
				}
			}
		})
	}
	for i := range 300 {
		args := []string{"SORT_RO", "l", "BY", "w_*", "GET", "#", "GET", "w_*", "GET", "h_*->f"}
		if i%2 == 1 {
			args[0] = "SORT"
		}
		got := strings.Split(strings.TrimSuffix(do(t, db, args...), "\r\n"), "\r\n")
		if got[0] != fmt.Sprintf("*%d", 3*n) {
			t.Fatalf("%q", got)
		}
		var values []string
		for at := 1; at < len(got); at++ {
			if got[at] == "$-1" {
				values = append(values, "")
				continue
			}
			at++
			values = append(values, got[at])
		}
		for at := 0; at < len(values); at += 3 {
			e, weight, field := values[at], values[at+1], values[at+2]
			if weight != "" && weight != "5"+e || field != "" && field != "6"+e {
				t.Errorf("%s has the weight %q and the field %q", e, weight, field)
			}
		}
	}
	stop.Store(true)
	work.Wait()
}
