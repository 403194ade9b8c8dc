package rocks

// #include <stdlib.h>
// #include "shim/shim.h"
import "C"

import (
	"runtime"
	"unsafe"
)

// SSTWriter writes a table file for [DB.Ingest]. The database stays open until Close. It must be used by one goroutine.
type SSTWriter struct {
	d *DB
	w *C.bk_sst
}

// NewSSTWriter starts a table file with the options of a family.
func (d *DB) NewSSTWriter(f *Family, path string) (*SSTWriter, error) {
	if !d.enter() {
		return nil, ErrClosed
	}
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	var cerr *C.char
	w := C.bk_sst_open(d.ptr, f.ptr, cpath, &cerr)
	if w == nil {
		d.leave()
		return nil, takeErr(cerr)
	}
	live.Add(1)
	return &SSTWriter{d, w}, nil
}

// Add adds records in ascending order of their keys. at holds the offsets of the records in arena. A record is u32 key
// length · u32 value length · key · value, in the byte order of the host.
func (w *SSTWriter) Add(arena []byte, at []uint64) error {
	if len(at) == 0 {
		return nil
	}
	var cerr *C.char
	C.bk_sst_add(w.w, bytesPtr(arena), (*C.uint64_t)(unsafe.SliceData(at)), C.size_t(len(at)), &cerr)
	return takeErr(cerr)
}

// Finish completes the file, which must have at least one record.
func (w *SSTWriter) Finish() error {
	var cerr *C.char
	C.bk_sst_finish(w.w, &cerr)
	return takeErr(cerr)
}

// Close frees the writer. Repeated calls are allowed.
func (w *SSTWriter) Close() {
	if w.w == nil {
		return
	}
	C.bk_sst_close(w.w)
	w.w = nil
	live.Add(-1)
	w.d.leave()
}

// SSTFile is a table file for a family.
type SSTFile struct {
	Family *Family
	Path   string
}

// CheckSST returns an error for a table file that a family cannot take: one that is damaged, of a format that RocksDB
// does not know, or in the order of another comparator. It reads the whole file.
func (d *DB) CheckSST(f SSTFile) error {
	if !d.enter() {
		return ErrClosed
	}
	defer d.leave()
	path := C.CString(f.Path)
	defer C.free(unsafe.Pointer(path))
	var cerr *C.char
	C.bk_sst_check(d.ptr, f.Family.ptr, path, &cerr)
	return takeErr(cerr)
}

// Ingest brings table files into the database, either all or none. With move they are moved, otherwise copied.
func (d *DB) Ingest(files []SSTFile, move bool) error {
	if len(files) == 0 {
		return nil
	}
	if !d.enter() {
		return ErrClosed
	}
	defer d.leave()
	families := make([]unsafe.Pointer, len(files))
	paths := make([]*C.char, len(files))
	for i, f := range files {
		families[i] = f.Family.ptr
		paths[i] = C.CString(f.Path)
		defer C.free(unsafe.Pointer(paths[i]))
	}
	var moves C.int
	if move {
		moves = 1
	}
	var cerr *C.char
	C.bk_ingest(d.ptr, C.int(len(files)), unsafe.SliceData(families), unsafe.SliceData(paths), moves, &cerr)
	runtime.KeepAlive(files)
	return takeErr(cerr)
}
