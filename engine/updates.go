package engine

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Updates are consecutive write batches of the log.
type Updates struct {
	Batches [][]byte // RocksDB's representation, each with its sequence number
	Last    uint64   // sequence number of the last record in Batches; without batches, the requested number
	Latest  uint64   // sequence number of the newest write, not less than Last
}

// UpdatesLimit limits Updates.
type UpdatesLimit struct {
	Batches int
	Bytes   int  // of all batches; the first batch is returned however long it is
	Strict  bool // the first batch must begin at the next sequence number
}

// Errors of [DB.UpdatesAfter], with the texts of Kvrocks.
var errUpdatesRange = NewError("ERR", "next sequence is out of range")

// UpdatesAfter returns the batches of the log after a sequence number, 0 = from the beginning of the log. Unless the
// limit says otherwise, the first batch is the one that holds the next number; if that is no longer in the log, the
// first later batch. The batches are contiguous: where the log has a gap, they end.
func (db *DB) UpdatesAfter(seq uint64, limit UpdatesLimit) (Updates, error) {
	u := Updates{Last: seq, Latest: db.LatestSequence()}
	switch {
	case seq == u.Latest:
		return u, nil
	case seq > u.Latest || seq == math.MaxUint64:
		return u, errUpdatesRange
	}
	wal, err := db.rocks.WAL(seq + 1)
	if err != nil {
		return u, updatesError(err)
	}
	defer wal.Close()
	for size := 0; len(u.Batches) < limit.Batches; {
		rep, first, err := wal.Next()
		if len(u.Batches) == 0 {
			switch {
			case err != nil:
				return u, updatesError(err)
			case rep == nil: // never logged, or purged
				return u, NewError("ERR",
					fmt.Sprintf("iterator is not valid: there is no batch of sequence number %d in the log, nor one after it", seq+1))
			case limit.Strict && first != seq+1:
				return u, NewError("ERR", fmt.Sprintf("mismatched sequence number, expected %d but got %d", seq+1, first))
			}
		} else if err != nil || rep == nil || first != u.Last+1 || size+len(rep) > limit.Bytes {
			break // an error recurs for the caller that asks for the next batches
		}
		size += len(rep)
		u.Batches = append(u.Batches, rep)
		u.Last = first + uint64(binary.LittleEndian.Uint32(rep[8:])) - 1
	}
	u.Latest = db.LatestSequence() // batches may be newer than the old value
	return u, nil
}

func updatesError(err error) error {
	return NewError("ERR", "the log cannot be read: "+err.Error())
}
