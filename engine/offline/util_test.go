package offline

import "hash/crc32"

func maskedSum(b []byte) uint32 { return masked(crc32.Checksum(b, castagnoli)) }
