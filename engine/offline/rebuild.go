package offline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/internal/durable"
)

// rebuild creates a new database from all readable records, in place of a database with damaged files. The damaged
// database remains beside it under another name. rebuild returns that name, and the number of unreadable key ranges.
//
// If the newest record of a key is in a damaged block, an older or a deleted record of the key may reappear: the
// content of the block is unknown. The replication id is not copied, so that replicas synchronise in full.
func rebuild(ctx context.Context, dir string, o *Options) (aside string, unread int, err error) {
	dir = filepath.Clean(dir)
	fresh := dir + ".rebuilt"
	if _, err := os.Lstat(fresh); err == nil {
		return "", 0, fmt.Errorf("%s is there: an interrupted repair has left it. It may be the damaged database itself: "+
			"move it away", fresh)
	}
	r, err := engine.OpenDamaged(dir)
	if err != nil {
		return "", 0, err
	}
	defer r.Close()
	if names := r.UnknownFamilies(); len(names) > 0 {
		return "", 0, fmt.Errorf("the column family %s of a newer version cannot be rebuilt: restore the damaged files",
			names[0])
	}
	if unread, err = copyRecords(ctx, r, fresh, o); err != nil {
		return "", 0, errors.Join(err, os.RemoveAll(fresh))
	}
	aside = unused(dir + ".damaged-" + o.Now().UTC().Format("20060102T150405"))
	if err := exchange(fresh, dir); err != nil {
		return "", 0, err
	}
	if err := os.Rename(fresh, aside); err != nil {
		return "", 0, err
	}
	return aside, unread, durable.SyncDir(filepath.Dir(dir))
}

// unused returns a name that no file has: the given one, or one that begins with it.
func unused(name string) string {
	for n, try := 2, name; ; n++ {
		if _, err := os.Lstat(try); err != nil {
			return try
		}
		try = fmt.Sprintf("%s-%d", name, n)
	}
}

// exchange swaps two directories, atomically where the file system supports it.
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	between := a + ".tmp"
	if err := os.Rename(b, between); err != nil {
		return err
	}
	if err := os.Rename(a, b); err != nil {
		return errors.Join(err, os.Rename(between, b))
	}
	return os.Rename(between, a)
}

// copyRecords writes all readable records to a new database, which is synced when it returns.
func copyRecords(ctx context.Context, r *engine.ReadOnly, to string, o *Options) (unread int, err error) {
	options := engine.DefaultRocksOptions()
	db, err := engine.Open(engine.Options{Dir: to, Slots: r.Slots(), DisableWAL: true, Rocks: options})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.CloseUncounted()) }()
	var b batch.Builder
	for id := range cf.NumFamilies {
		if id == cf.PubSub { // compactions drop its records
			continue
		}
		advance := o.Phase("rebuild "+id.String(), r.Records(id), false)
		cur := r.Cursor(id, engine.CursorOptions{Damaged: func([]byte, []byte, error) { unread++ }})
		for n := int64(1); cur.Next(); n++ {
			if id == cf.Propagate && string(cur.Key()) == cf.PropagateReplicationID {
				continue
			}
			b.Put(id, cur.Key(), cur.Value())
			if n%advanceEvery == 0 {
				advance(advanceEvery)
				err = ctx.Err()
			}
			if err == nil && b.Len() > maxMend {
				err = db.WriteUncounted(b.Bytes())
				b.Reset()
			}
			if err != nil {
				cur.Close()
				return unread, err
			}
		}
		cur.Close()
	}
	if b.Count() > 0 {
		if err := db.WriteUncounted(b.Bytes()); err != nil {
			return unread, err
		}
	}
	for id := range cf.NumFamilies {
		if err := db.FlushMemtable(id); err != nil {
			return unread, err
		}
	}
	return unread, nil
}
