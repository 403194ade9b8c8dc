// Package history identifies the history that a write belongs to. Databases that share a history have the same writes
// up to some sequence number. A history has a replication id, which every write carries at its end in the log.
package history

import (
	"crypto/rand"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
)

// NewID makes a replication id.
func NewID() string {
	const letters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	id := make([]byte, 0, cf.ReplicationIDLen)
	for len(id) < cf.ReplicationIDLen {
		var b [cf.ReplicationIDLen]byte
		rand.Read(b[:])
		for _, x := range b {
			if int(x) < 256/len(letters)*len(letters) && len(id) < cf.ReplicationIDLen { // all letters equally often
				id = append(id, letters[int(x)%len(letters)])
			}
		}
	}
	return string(id)
}

// IDBefore returns the replication id of the write before a sequence number, or of the first write in the log. When the
// log does not tell the id of the newest write, because the log was deleted, the id that the database holds does. "" =
// unknown.
func IDBefore(db *engine.DB, next uint64) (id string, err error) {
	if id = idInLog(db, next); id != "" || next != db.LatestSequence()+1 {
		return id, nil
	}
	id, err = db.StoredReplicationID()
	if next != db.LatestSequence()+1 {
		return "", err // a write that came meanwhile may have stored the id of a new history
	}
	return id, err
}

// idInLog returns the replication id of the write before a sequence number, or of the first write in the log; "" when
// the log does not contain it.
func idInLog(db *engine.DB, next uint64) (id string) {
	last := max(next, 1) - 1
	log, err := db.WAL(last)
	if err != nil {
		return ""
	}
	defer log.Close()
	rep, _, err := log.Next()
	if err != nil || rep == nil {
		return ""
	}
	return idOf(rep, last)
}

// idOf returns the replication id of the write with a sequence number. Each write ends with its id. A batch of the log
// may contain several writes: of a group commit, or in the log of a replica.
func idOf(rep []byte, seq uint64) (id string) {
	r, err := batch.NewReader(rep)
	if err != nil {
		return ""
	}
	for at := r.Sequence(); ; {
		rec, ok := r.Next()
		switch {
		case !ok:
			return id
		case rec.Kind.Counted():
			at++
		case rec.Kind == batch.LogData:
			if found, err := cf.ParseLogData(rec.Value); err == nil && found != nil {
				if id = string(found); at > seq {
					return id
				}
			}
		}
	}
}
