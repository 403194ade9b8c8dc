package engine

import (
	"encoding/binary"
	"fmt"

	"github.com/basaltdb/basalt/cf"
)

// slotSample is the number of metadata records from which checkSlots infers whether keys carry the cluster slot. A key
// without a slot seems to have its own slot in one of 16384 cases.
const slotSample = 16

// slotSkip is the max number of tombstones that are skipped to find a record. Beyond them the form is unknown, and the
// setting is trusted.
const slotSkip = 1 << 16

// checkSlots compares the form of the keys with Options.Slots, which the format does not record. In the wrong form
// every key seems to be missing, and keys that are written are missing once the database is opened in the right form.
//
// A key that does not begin with its own slot proves the plain form. Two or more keys that begin with their slots are
// accepted as proof of the other form.
func (db *DB) checkSlots() error {
	tx := db.NewTx()
	tx.Begin("")
	defer tx.Release()
	it := tx.Iter(cf.Metadata, IterOptions{KeysOnly: true, Limit: slotSample, NoFill: true, MaxSkip: slotSkip})
	defer it.Close()
	n, plain := 0, false
	for ; n < slotSample && !plain && it.Next(); n++ {
		key := it.Key()
		_, userKey, err := cf.SplitNSKey(key, true)
		plain = err != nil || binary.BigEndian.Uint16(key[len(key)-len(userKey)-2:]) != cf.Slot(userKey)
	}
	if err := it.Err(); err != nil && !incomplete(err) {
		return err
	}
	switch {
	case db.slots && plain:
		return fmt.Errorf("%w: they do not carry the cluster slot: %s", ErrSlots, db.dir)
	case !db.slots && !plain && n > 1:
		return fmt.Errorf("%w: they carry the cluster slot: %s", ErrSlots, db.dir)
	}
	return nil
}
