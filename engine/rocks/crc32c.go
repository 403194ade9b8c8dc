//go:build amd64 || arm64

package rocks

// #include "shim/crc32c.h"
import "C"

// crc32c extends the CRC-32C of a string by b. RocksDB uses this checksum for its WAL and its blocks. With table it
// does not use the CPU instruction.
func crc32c(sum uint32, b []byte, table bool) uint32 {
	return uint32(C.bk_crc32c(C.uint32_t(sum), bytesPtr(b), C.size_t(len(b)), cbool(table)))
}

// crc32cCombine returns the checksum of two concatenated strings from their checksums; the second string has n bytes.
func crc32cCombine(first, second uint32, n int) uint32 {
	return uint32(C.bk_crc32c_combine(C.uint32_t(first), C.uint32_t(second), C.size_t(n)))
}
