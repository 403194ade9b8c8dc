// Package rdbfile writes RDB files, in parts: no value need be in memory as a whole.
package rdbfile

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/basaltdb/basalt/internal/crc64"
	"github.com/basaltdb/basalt/server/rdb"
)

// Version is the lowest version of the format that has all that package rdb writes, but the expiries of the fields of
// hashes: that of Redis 7.0.
const Version = 10

// PartBytes is the number of bytes from which on a Writer passes on what it has.
const PartBytes = 64 << 10

const opEOF = 255

// Writer writes a file: the libraries of functions, then for each database its number and its keys, then the end. An
// error of the destination is kept: nothing is written after it, and End returns it.
type Writer struct {
	to  io.Writer
	sum uint64 // of all that was passed on
	buf []byte
	err error
}

// New begins a file of a version of the format.
func New(to io.Writer, version int) *Writer {
	w := &Writer{to: to, buf: make([]byte, 0, 2*PartBytes)}
	w.buf = fmt.Appendf(w.buf, "REDIS%04d", version)
	w.buf = rdb.AppendAux(w.buf, "redis-ver", "7.2.0")
	w.buf = rdb.AppendAux(w.buf, "redis-bits", "64")
	w.buf = rdb.AppendAux(w.buf, "ctime", strconv.FormatInt(time.Now().Unix(), 10))
	return w
}

// Function writes the source of a library of functions.
func (w *Writer) Function(source []byte) {
	w.buf = rdb.AppendFunction(w.buf, source)
	w.pass(PartBytes)
}

// Select begins the keys of a database. Without it the keys are those of database 0.
func (w *Writer) Select(db uint64) { w.buf = rdb.AppendSelect(w.buf, db) }

// Key writes a key. body is that of DUMP, or its beginning: then the rest follows by Part. expire is in milliseconds
// since the epoch, 0 = none.
func (w *Writer) Key(key, body []byte, expire int64) {
	w.buf = rdb.AppendKey(w.buf, key, body, expire)
	w.pass(PartBytes)
}

// Part writes a further part of the value of the last key.
func (w *Writer) Part(b []byte) {
	w.pass(PartBytes - len(b))
	if len(b) < PartBytes {
		w.buf = append(w.buf, b...)
		return
	}
	w.pass(0)
	w.put(b)
}

// End writes the end of the file, with its checksum, and returns the error of the file.
func (w *Writer) End() error {
	w.buf = append(w.buf, opEOF)
	w.pass(0)
	w.buf = binary.LittleEndian.AppendUint64(w.buf, w.sum)
	w.pass(0)
	return w.err
}

func (w *Writer) Err() error { return w.err }

// pass passes on what there is, if it is at least so many bytes.
func (w *Writer) pass(least int) {
	if len(w.buf) < least || len(w.buf) == 0 {
		return
	}
	w.put(w.buf)
	if w.buf = w.buf[:0]; cap(w.buf) > 16*PartBytes {
		w.buf = make([]byte, 0, 2*PartBytes)
	}
}

func (w *Writer) put(b []byte) {
	if w.err == nil {
		w.sum = crc64.Update(w.sum, b)
		_, w.err = w.to.Write(b)
	}
}
