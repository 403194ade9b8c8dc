package offline

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/basaltdb/basalt/engine/rocks"
)

// files verifies the checksums of all files of the database.
func (c *checker) files() error {
	logs := c.r.Logs()
	c.report.Files.LogTail = logs.TailBytes
	if logs.Loss != nil {
		c.problem(Problem{Kind: BadLog, File: logs.Loss.File, Detail: logs.Loss.String() + ": docs/recovery.md"}, nil)
	}
	for _, t := range c.r.Lost() {
		c.problem(Problem{Kind: BadFile, File: t.Name(), Family: t.Family, Detail: fmt.Sprintf(
			"%v; its %d bytes in level %d with records between 0x%x and 0x%x are lost", t.Why, t.Size, t.Level, t.Smallest,
			t.Largest)},
			nil)
	}
	tables := c.r.Tables()
	blobs, err := filepath.Glob(filepath.Join(c.r.Dir(), "*.blob"))
	if err != nil {
		return err
	}
	var total int64
	for _, t := range tables {
		total += t.Bytes
	}
	c.report.Files.Tables, c.report.Files.TableBytes, c.report.Files.Blobs = len(tables), total, len(blobs)
	for _, b := range blobs {
		if info, err := os.Stat(b); err == nil {
			c.report.Files.BlobBytes += info.Size()
		}
	}
	advance := c.o.Phase("files", total+c.report.Files.BlobBytes, true)
	for _, t := range tables {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if err := verifyTable(t.Path); err != nil {
			c.problem(Problem{Kind: BadFile, File: filepath.Base(t.Path), Family: t.Family, Detail: err.Error()}, nil)
		}
		advance(t.Bytes)
	}
	for _, b := range blobs {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		n, err := verifyBlobs(b)
		if err != nil {
			c.problem(Problem{Kind: BadFile, File: filepath.Base(b), Detail: err.Error()}, nil)
		}
		advance(n)
	}
	return nil
}

// unopenable reports the problems in the files of a database that RocksDB cannot open.
func unopenable(dir string, why error, o *Options) *Report {
	r := newReport(dir, false)
	tables, _ := filepath.Glob(filepath.Join(dir, "*.sst"))
	add := func(p Problem) {
		r.add(p)
		o.Problem(&p)
	}
	for _, path := range tables {
		if err := verifyTable(path); err != nil {
			add(Problem{Kind: BadFile, File: filepath.Base(path), Detail: err.Error()})
		}
	}
	r.Files.Tables = len(tables)
	add(Problem{Kind: BadFile, Detail: "records were not read, as the database cannot be opened: " + why.Error()})
	return r
}

// A table file ends with a footer of 53 bytes (table/format.cc of RocksDB, format versions 1 to 5):
//
//	u8 kind of checksum · varint64 x 4: handles of metaindex and index · zeros · u32 format version · u64 magic number
//
// Nothing checks the zeros; the rest is needed to open the file.
const (
	footerLen   = 53
	footerHead  = 1 + 40
	tableMagic  = 0x88e241b785f4cff7
	maxChecksum = 4
)

// verifyTable reads a whole table file. Each of its bytes is either covered by the checksum of a block or in the
// footer.
func verifyTable(path string) error {
	if err := verifyFooter(path); err != nil {
		return err
	}
	return rocks.VerifyTable(path)
}

func verifyFooter(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < footerLen {
		return fmt.Errorf("%d bytes are too few for a table file", info.Size())
	}
	b := make([]byte, footerLen)
	if _, err := f.ReadAt(b, info.Size()-footerLen); err != nil {
		return err
	}
	version := binary.LittleEndian.Uint32(b[footerHead:])
	switch {
	case binary.LittleEndian.Uint64(b[footerHead+4:]) != tableMagic:
		return errors.New("the file does not end as a table file does")
	case version > 5: // another footer format, which RocksDB checks
		return nil
	case b[0] > maxChecksum:
		return fmt.Errorf("unknown kind of checksum %d in the footer", b[0])
	}
	rest := b[1:footerHead]
	for range 4 {
		_, n := binary.Uvarint(rest)
		if n <= 0 {
			return errors.New("the footer cannot be decoded")
		}
		rest = rest[n:]
	}
	if slices.ContainsFunc(rest, func(b byte) bool { return b != 0 }) {
		return errors.New("the footer has other bytes than zeros behind its end")
	}
	return nil
}

// A blob file (db/blob/blob_log_format.h of RocksDB) has a header, records and, if it is complete, a footer. All
// numbers are little-endian; each checksum is a masked CRC-32C. The header has no checksum.
//
//	header  u32 magic · u32 version (1) · u32 family · u8 flags (0) · u8 compression · u64 x 2 expiration (0)
//	record  u64 key length · u64 value length · u64 expiration · u32 checksum of these · u32 checksum of key and
//	        value · key · value
//	footer  u32 magic · u64 records · u64 x 2 expiration · u32 checksum
const (
	blobMagic  = 2395959
	blobHeader = 30
	blobRecord = 32
	blobFooter = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// masked returns a checksum in RocksDB's stored form.
func masked(crc uint32) uint32 { return (crc>>15 | crc<<17) + 0xa282ead8 }

// verifyBlobs reads a whole blob file and returns its length.
func verifyBlobs(path string) (size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	size = info.Size()
	r := bufio.NewReaderSize(f, 1<<20)
	head := make([]byte, blobRecord)
	if _, err := io.ReadFull(r, head[:blobHeader]); err != nil {
		return size, errors.New("the header is cut off")
	}
	u32, u64 := binary.LittleEndian.Uint32, binary.LittleEndian.Uint64
	if u32(head) != blobMagic || u32(head[4:]) != 1 || head[12] != 0 || u64(head[14:])|u64(head[22:]) != 0 {
		return size, errors.New("the header is damaged")
	}
	for at := int64(blobHeader); at < size; {
		if _, err := io.ReadFull(r, head); err != nil {
			return size, fmt.Errorf("the record at byte %d is cut off", at)
		}
		if at+blobFooter == size && u32(head) == blobMagic {
			if u32(head[28:]) != masked(crc32.Checksum(head[:28], castagnoli)) {
				return size, errors.New("the footer is damaged")
			}
			return size, nil
		}
		keyLen, valueLen := u64(head), u64(head[8:])
		rest := uint64(size - at - blobRecord)
		if u32(head[24:]) != masked(crc32.Checksum(head[:24], castagnoli)) || keyLen > rest || valueLen > rest-keyLen {
			return size, fmt.Errorf("the record at byte %d is damaged: nothing behind it can be read", at)
		}
		sum := crc32.New(castagnoli)
		if _, err := io.CopyN(sum, r, int64(keyLen+valueLen)); err != nil {
			return size, err
		}
		if u32(head[28:]) != masked(sum.Sum32()) {
			return size, fmt.Errorf("the value at byte %d is damaged", at)
		}
		at += blobRecord + int64(keyLen+valueLen)
	}
	return size, nil
}
