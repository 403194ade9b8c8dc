// Functions of crc32c.hpp for tests. They borrow their arguments for the duration of the call.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// bk_crc32c extends the crc32c of a string by n bytes, as RocksDB does, or with table without the CPU instruction.
uint32_t bk_crc32c(uint32_t crc, const char* p, size_t n, int table);
uint32_t bk_crc32c_combine(uint32_t crc1, uint32_t crc2, size_t len2);

#ifdef __cplusplus
}
#endif
