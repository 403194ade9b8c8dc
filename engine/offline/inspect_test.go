package offline

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/set"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

// What Inspect counts is what Check has counted, and what the records have in bytes.
func TestInspect(t *testing.T) {
	dir := kvrocks(t)
	r := check(t, dir)
	in, err := Inspect(t.Context(), dir, 5, Options{})
	require.NoError(t, err)
	var inBuckets, inTTLs, bytes int64
	for _, b := range in.Sizes {
		inBuckets += b.Keys
	}
	for _, b := range in.TTLs {
		inTTLs += b.Keys
	}
	for name, u := range in.Types {
		bytes += u.Bytes
		if c := r.Types[name]; c.Keys != u.Keys || c.Subkeys != u.Members && name != "zset" {
			t.Errorf("%s: %+v, %+v", name, *c, *u)
		}
	}
	if in.Keys != 99 || inBuckets != 99 || inTTLs != 99 || bytes != in.Bytes || len(in.Biggest) != 5 ||
		in.Namespaces["ns1"].Keys != 13 {
		t.Errorf("%+v", in)
	}
	g := in.Garbage
	if g.Records != 1+r.Garbage.Orphans+r.Garbage.OldVersions || g.Expired != 1 || len(g.Versions) != 2 ||
		g.Versions[0] != (GarbageKey{cf.DefaultNamespace, "set:inter", 1, 6, 210}) {
		t.Errorf("%+v", g)
	}
	db := enginetest.OpenWith(t, engine.Options{Dir: dir})
	for _, k := range in.Biggest {
		err := db.View(k.Namespace, enginetest.Bytes(k.Key), func(tx *engine.Tx) error {
			size, _, err := keys.Size(tx, []byte(k.Key), 0)
			if int64(size) != k.Bytes {
				t.Errorf("%s: %d bytes, MEMORY USAGE tells %d", k.Key, k.Bytes, size)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// A set that was made anew twice leaves two old versions.
func TestInspectVersions(t *testing.T) {
	dir := t.TempDir() + "/db"
	options := engine.DefaultRocksOptions()
	options.DisableAutoCompactions = true
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir, Rocks: options})
	key := enginetest.Bytes("s")
	for n := range 3 {
		enginetest.Update(t, db, key, func(tx *engine.Tx) error {
			str.MSet(tx, [][]byte{key[0], []byte("v")})
			return nil
		})
		enginetest.Update(t, db, key, func(tx *engine.Tx) error {
			if _, err := keys.Del(tx, key...); err != nil {
				return err
			}
			for m := range n + 1 {
				if _, err := set.Add(tx, key[0], [][]byte{fmt.Append(nil, m)}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	require.NoError(t, db.Close())
	in, err := Inspect(t.Context(), dir, 5, Options{})
	if err != nil || in.Keys != 1 || in.Biggest[0].Members != 3 || len(in.Garbage.Versions) != 1 ||
		in.Garbage.Versions[0].Versions != 2 || in.Garbage.Versions[0].Records != 3 {
		t.Errorf("%+v, %v", in, err)
	}
}

func TestBuckets(t *testing.T) {
	now := time.UnixMilli(1e12)
	for _, tt := range []struct {
		bytes      int64
		expire     time.Duration
		size, left string
	}{
		{0, 0, "up to 64 bytes", "never"}, {64, time.Second, "up to 64 bytes", "up to a minute"},
		{65, -time.Second, "up to 512 bytes", "expired"}, {512, time.Hour, "up to 512 bytes", "up to an hour"},
		{513, 25 * time.Hour, "up to 4 KiB", "up to a week"}, {4096, 1e18, "up to 4 KiB", "longer"},
		{128 << 20, time.Minute, "up to 128 MiB", "up to a minute"}, {128<<20 + 1, time.Minute, "more than 128 MiB", ""},
	} {
		c := NewCollector(1, now)
		k := Key{Type: "string", Bytes: tt.bytes}
		if tt.expire != 0 {
			k.Expire = now.Add(tt.expire).UnixMilli()
		}
		c.Add(k)
		find := func(list []Bucket) string {
			for _, b := range list {
				if b.Keys == 1 {
					return b.Name
				}
			}
			return "none"
		}
		if size, left := find(c.In.Sizes), find(c.In.TTLs); size != tt.size || tt.left != "" && left != tt.left {
			t.Errorf("%d bytes, %v: %q, %q", tt.bytes, tt.expire, size, left)
		}
	}
}

// The ldb command beside a record prints its value, and the parts of a key make up the key.
func TestRaw(t *testing.T) {
	ldb, err := exec.LookPath("ldb")
	if err != nil {
		t.Skip("ldb is missing: scripts/bootstrap.sh --test installs it")
	}
	dir := kvrocks(t)
	for _, key := range []string{"str:plain", "hash:small", "zset:mixed", "stream:groups", "bitmap:sparse", "set:inter"} {
		n := 0
		err := Raw(dir, cf.DefaultNamespace, []byte(key), 0, func(r Record) error {
			var joined strings.Builder
			for _, p := range r.Parts {
				bytes, _, _ := strings.Cut(p, ":")
				if strings.Contains(bytes, "...") {
					return nil // a long part is cut off
				}
				joined.WriteString(bytes)
			}
			if "0x"+joined.String() != r.Key || len(r.Fields) == 0 {
				t.Errorf("%s: %+v", key, r)
			}
			if n++; n > 3 {
				return nil
			}
			out, err := exec.Command("sh", "-c", strings.Replace(r.Ldb, "ldb ", ldb+" ", 1)).Output()
			if got := strings.TrimSpace(string(out)); err != nil || got != r.Value && got+r.Value != "0x0x" {
				t.Errorf("%s prints %q, %v; want %s", r.Ldb, got, err, r.Value)
			}
			return nil
		})
		if err != nil || n == 0 {
			t.Errorf("%s: %d records, %v", key, n, err)
		}
	}
	if err := Raw(dir, cf.DefaultNamespace, []byte("nobody"), 0, nil); err == nil {
		t.Error("a key that is missing was found")
	}
}
