package engine

import (
	"errors"

	"github.com/basaltdb/basalt/engine/rocks"
)

// Error is an error whose text is meant for the client: Code is the kind of the error as Redis sends it ("ERR",
// "WRONGTYPE", ...), Text the rest of the line.
type Error struct {
	Code string
	Text string
}

// NewError makes an [Error].
func NewError(code, text string) *Error { return &Error{Code: code, Text: text} }

func (e *Error) Error() string { return e.Text }

// ErrWrongType is returned when a live key holds another type than the command needs.
var ErrWrongType = NewError("WRONGTYPE", "Operation against a key holding the wrong kind of value")

// ErrBatchSize is returned for a write batch, of a transaction or from elsewhere, that is longer than
// Options.MaxBatchBytes.
var ErrBatchSize = NewError("ERR", "the write batch is larger than rocksdb.write_options.write_batch_max_bytes")

// ErrResultSize is returned for a result that is made in memory and would take more than Options.MaxResultBytes.
var ErrResultSize = NewError("ERR", "the result would take too much memory")

// Errors of Open and of a database that cannot continue.
var (
	ErrLocked      = errors.New("the data directory is locked by another process")
	ErrNotDatabase = errors.New("the data directory was not written by Kvrocks or basalt")
	// ErrSlots: Options.Slots does not fit the database.
	ErrSlots  = errors.New("the keys of the database have another form")
	ErrClosed = rocks.ErrClosed
	// ErrLoading: the database is being exchanged for another one, see [DB.Replace]. The text is Kvrocks's.
	ErrLoading = NewError("LOADING", "kvrocks is restoring the db from backup")
	// ErrUnwanted: the database was not replaced after all, see [DB.Replace].
	ErrUnwanted  = errors.New("the database is not to be replaced any more")
	ErrNoReplica = errors.New("the database is no replica any more")
	// ErrReplica: a write was refused because only writes from its master reach the database of a replica, see
	// [DB.SetReplica].
	ErrReplica = NewError("READONLY", "You can't write against a read only replica.")
	// ErrWALGap: the write-ahead log lacks requested writes: they were purged or never logged.
	ErrWALGap = errors.New("the write-ahead log has a gap")
)
