package migration_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/cluster/migration/carry"
	"github.com/basaltdb/basalt/server/cluster/migration/source"
	"github.com/basaltdb/basalt/server/cluster/migration/stage"
)

// filesBatch is the number of bytes of records in one command.
const filesBatch = 1 << 10

// startFilesOrigin starts a source whose snapshots always go by table files.
func startFilesOrigin(t testing.TB) *origin {
	from := carry.FilesFrom
	carry.FilesFrom = 1
	t.Cleanup(func() { carry.FilesFrom = from })
	o := startOrigin(t)
	o.settings.BatchBytes = filesBatch / 16
	return o
}

// TestFiles: with table files, the destination gets all keys of every type, the keys written meanwhile, and no others,
// whatever it had before. A second migration writes over the tombstones of the first one.
func TestFiles(t *testing.T) {
	for seed := range uint64(3) {
		if testing.Short() && seed != 2 {
			continue
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			o, d := startFilesOrigin(t), startDestination(t)
			w := &writer{client: o.client, rng: rand.New(rand.NewPCG(seed, 7)), tags: testTags}
			left := &writer{client: d.client, rng: rand.New(rand.NewPCG(seed, 8)), tags: testTags}
			left.write(300)
			w.write(2000)
			o.step = func(s stage.Stage) {
				switch s {
				case stage.Log, stage.Forbidden:
					w.write(500)
				}
			}
			r := slotOf("foo")
			if seed == 2 {
				r = cf.SlotRange{First: 0, Last: cf.NumSlots - 1}
			}
			ended := 0
			d.hear = func(cmd []string) bool {
				if cmd[0] == "_ingest" && cmd[1] == "END" {
					ended++
				}
				return ended != 1 || cmd[0] != "CLUSTER" || cmd[3] != "1" // the first try is cut before its success
			}
			o.limits = source.StandardLimits // the answer never comes
			err := o.migrate(d, r)
			o.limits = patient
			d.idle()
			failed(t, o, d, r, err, nil)
			require.NoError(t, o.migrate(d, r))
			if ended != 2 {
				t.Errorf("%d times by table files", ended)
			}
			compare(t, o.db, d.db, r, true)
			checkCount(t, d.node)
			if d.suspended.Load() != 0 {
				t.Error("replicas stay cut off")
			}
		})
	}
}

// TestFilesCutEverywhere is TestCutEverywhere with table files.
func TestFilesCutEverywhere(t *testing.T) {
	o, d := startFilesOrigin(t), startDestination(t)
	w := &writer{client: o.client, rng: rand.New(rand.NewPCG(8, 5)), tags: []string{"foo"}}
	w.write(200)
	r := slotOf("foo")
	o.step = func(s stage.Stage) {
		if s == stage.Log || s == stage.Forbidden {
			w.write(20)
		}
	}
	part := 8
	if testing.Short() {
		part = 1
	}
	done := false
	for cut := 0; !done; cut += 1 + cut/part {
		for _, after := range []bool{false, true} {
			n := -1
			d.hear = func([]string) bool { n++; return n != cut || after }
			d.deaf = func([]string) bool { return after && n == cut }
			err := o.migrate(d, r)
			d.idle()
			if n < cut {
				done = true
				require.NoError(t, err)
				compare(t, o.db, d.db, r, true)
				break
			}
			failed(t, o, d, r, err, nil)
		}
	}
	checkCount(t, d.node)
}

// TestFilesRefused: a destination whose log is followed gets batches, and so does a destination without _ingest.
func TestFilesRefused(t *testing.T) {
	for _, why := range []string{"followed", "unknown"} {
		t.Run(why, func(t *testing.T) {
			o, d := startFilesOrigin(t), startDestination(t)
			d.followed.Store(why == "followed")
			d.hide = map[string]bool{"_ingest": why == "unknown"}
			w := &writer{client: o.client, rng: rand.New(rand.NewPCG(8, 5)), tags: []string{"foo"}}
			w.write(500)
			sent := 0
			d.hear = func(cmd []string) bool {
				if cmd[0] == "_ingest" && cmd[1] != "BEGIN" {
					sent++
				}
				return true
			}
			require.NoError(t, o.migrate(d, slotOf("foo")))
			if sent != 0 {
				t.Errorf("%d commands for table files", sent)
			}
			compare(t, o.db, d.db, slotOf("foo"), true)
		})
	}
}

// TestFilesEnd: an event between the records and their ingestion, or after it, ends the migration, and no key stays.
func TestFilesEnd(t *testing.T) {
	const begun, first, last, ended = "BEGIN", "the first records", "the last records", "END"
	for _, tt := range []struct {
		name string
		at   []string
		do   func(o *origin, d *sink, path string)
	}{
		{"FLUSHALL at the destination", []string{begun, first, last},
			func(_ *origin, d *sink, _ string) { d.ok("FLUSHALL") }},
		{"FLUSHALL at the source", []string{begun, first, last, ended},
			func(o *origin, _ *sink, _ string) { o.ok("FLUSHALL") }},
		{"the destination is killed", []string{ended},
			func(_ *origin, d *sink, path string) {
				require.NoError(t, os.MkdirAll(filepath.Dir(d.db.Dir())+"/files/left", 0o755))
				d.slots.ImportEnded(slotOf("foo")) // the next process knows of no import
				d.openImport(path)
			}},
		{"the import is ended", []string{begun, first, last, ended},
			func(_ *origin, d *sink, _ string) {
				d.imp.Load().Fail(&link{id: d.numbers.Add(1)}, slotOf("foo"))
			}},
	} {
		if testing.Short() {
			tt.at = tt.at[len(tt.at)-1:]
		}
		for _, at := range tt.at {
			t.Run(tt.name+"/"+at, func(t *testing.T) {
				o, d := startFilesOrigin(t), startDestination(t)
				path := t.TempDir() + "/import"
				d.openImport(path)
				w := &writer{client: o.client, rng: rand.New(rand.NewPCG(10, 5)), tags: []string{"foo"}}
				w.write(300)
				d.ok("SET other 1")
				done := false
				d.deaf = func(cmd []string) bool {
					if done || cmd[0] != "_ingest" {
						return false
					}
					is := cmd[1]
					switch {
					case is != "RECORDS":
					case len(cmd[2]) < filesBatch && at == last:
						is = last
					default:
						is = first
					}
					if done = is == at; done {
						tt.do(o, d, path)
					}
					return false
				}
				err := o.migrate(d, slotOf("foo"))
				d.idle()
				if !done {
					t.Fatal("there was no such command")
				}
				failed(t, o, d, slotOf("foo"), err, nil)
				w.write(300)
				require.NoError(t, o.migrate(d, slotOf("foo")))
				compare(t, o.db, d.db, slotOf("foo"), true)
			})
		}
	}
}

// TestFilesLeaveDead: elements of deleted collections are not sent.
func TestFilesLeaveDead(t *testing.T) {
	o, d := startFilesOrigin(t), startDestination(t)
	o.ok("HSET {foo}h a 1 b 2", "ZADD {foo}z 1 a 2 b", "RPUSH {foo}l a b", "XADD {foo}s 1-1 a b", "SADD {foo}set a b")
	o.ok("DEL {foo}h {foo}z {foo}l {foo}s", "HSET {foo}h c 3", "ZADD {foo}z 3 c", "SET {foo}l string")
	require.NoError(t, o.migrate(d, slotOf("foo")))
	compare(t, o.db, d.db, slotOf("foo"), true)
	lower, upper := engine.SlotBounds(slotOf("foo"))
	tx := d.db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	for id, want := range map[cf.ID]uint64{cf.Metadata: 4, cf.Default: 4, cf.ZSetScore: 1, cf.Stream: 0} {
		if n, err := tx.Count(id, lower, upper); err != nil || n != want {
			t.Errorf("%s: %d records, want %d: %v", id, n, want, err)
		}
	}
}
