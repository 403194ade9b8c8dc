// Package crc64 is the checksum of RDB files and of the payloads of DUMP and FUNCTION DUMP: CRC-64 with the polynomial
// of Jones, 0xad93d23594c935a9, bits reflected, initial value 0, final value not inverted. The check value, that of
// "123456789", is 0xe9c6d914c4b8d9ca.
package crc64

import "hash/crc64"

// table is for the polynomial with its bits reversed, as hash/crc64 requires.
var table = crc64.MakeTable(0x95ac9329ac4bc9b5)

// Update returns the checksum of data with checksum crc (0 for no data) followed by p.
func Update(crc uint64, p []byte) uint64 {
	// hash/crc64 inverts the value before and after.
	return ^crc64.Update(^crc, table, p)
}
