package engine

import (
	"encoding/binary"
	"fmt"

	"github.com/basaltdb/basalt/cf"
)

// slotSample is how many metadata records are looked at to tell whether keys carry the cluster slot. A key without one
// looks as if it had its right slot in one of 16384 cases.
const slotSample = 16

// slotSkip is how many tombstones are passed over for a record. Beyond them nothing is known, and the setting believed.
const slotSkip = 1 << 16

// checkSlots compares the form of the keys with Options.Slots, which the format does not record. Read in the wrong form
// every key seems to be missing, and what is written is missing in turn for whoever opens the database rightly.
//
// A key that does not have its own slot in front proves the plain form. The other form is believed when two keys or
// more have their slots.
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
