//go:build amd64 || arm64

// RocksDB's crc32c with the CPU instruction.
//
// Debian builds RocksDB for the oldest x86-64, without SSE 4.2, and for arm64 without the question whether the CPU has
// the instruction. So every record of the WAL and every block with a crc32c is summed by table (measured on amd64: 3 %
// of the cost of a SET). This file defines the three functions of RocksDB's crc32c.o under their original names: the
// linker finds them first and does not use that member of librocksdb.a. On other CPUs this file is not compiled, and
// RocksDB's functions are used.
#include "crc32c.h"

#ifdef __x86_64__
#include <nmmintrin.h>
#define CRC_TARGET "sse4.2"
#define CRC_CPU "x86"
#define CRC_8_BYTES _mm_crc32_u64
#define CRC_BYTE _mm_crc32_u8
#else
#include <arm_acle.h>
#include <sys/auxv.h>
#define CRC_TARGET "+crc"
#define CRC_CPU "Arm64"
#define CRC_8_BYTES __crc32cd
#define CRC_BYTE __crc32cb
#endif

#include <array>
#include <cstdint>
#include <cstring>
#include <string>

namespace rocksdb {
namespace crc32c {
uint32_t Extend(uint32_t crc, const char* data, size_t n);
std::string IsFastCrc32Supported();
uint32_t Crc32cCombine(uint32_t crc1, uint32_t crc2, size_t len2);
}  // namespace crc32c
}  // namespace rocksdb

namespace {

constexpr uint32_t kPoly = 0x82f63b78;  // Castagnoli's polynomial, lowest power in the highest bit (RFC 3720)

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> t{};
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t c = i;
    for (int k = 0; k < 8; k++) c = c & 1 ? (c >> 1) ^ kPoly : c >> 1;
    t[i] = c;
  }
  return t;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

// Both functions extend the inverted checksum.
uint32_t by_table(uint32_t c, const char* p, size_t n) {
  for (; n > 0; n--) c = kTable[(c ^ static_cast<unsigned char>(*p++)) & 0xff] ^ (c >> 8);
  return c;
}

__attribute__((target(CRC_TARGET))) uint32_t by_instruction(uint32_t crc, const char* p, size_t n) {
  decltype(CRC_8_BYTES(0, 0)) c = crc;  // 64 bits on amd64: without a conversion in the loop
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t v;
    memcpy(&v, p, 8);
    c = CRC_8_BYTES(c, v);
  }
  uint32_t r = static_cast<uint32_t>(c);
  for (; n > 0; n--) r = CRC_BYTE(r, static_cast<unsigned char>(*p++));
  return r;
}

bool has_instruction() {
#ifdef __x86_64__
  __builtin_cpu_init();  // the constructor of a static object may compute a checksum before
  return __builtin_cpu_supports("sse4.2");
#else
  static const bool has = getauxval(AT_HWCAP) & HWCAP_CRC32;
  return has;
#endif
}

// times multiplies two polynomials modulo the CRC's.
uint32_t times(uint32_t a, uint32_t b) {
  uint32_t p = 0;
  for (uint32_t m = uint32_t{1} << 31; m != 0; m >>= 1) {
    if (a & m) p ^= b;
    b = b & 1 ? (b >> 1) ^ kPoly : b >> 1;
  }
  return p;
}

}  // namespace

uint32_t rocksdb::crc32c::Extend(uint32_t crc, const char* data, size_t n) {
  return ~(has_instruction() ? by_instruction(~crc, data, n) : by_table(~crc, data, n));
}

std::string rocksdb::crc32c::IsFastCrc32Supported() {
  // RocksDB writes this text to its LOG; "by basalt" shows whose functions are linked.
  return has_instruction() ? "Supported on " CRC_CPU ", by basalt" : "Not supported on " CRC_CPU ", by basalt";
}

// Crc32cCombine returns the checksum of two concatenated strings from their checksums: it shifts the first checksum by
// the length of the second string, which is a multiplication by a power of x.
uint32_t rocksdb::crc32c::Crc32cCombine(uint32_t crc1, uint32_t crc2, size_t len2) {
  uint32_t power = uint32_t{1} << 31, square = uint32_t{1} << 23;  // x^0 and x^8
  for (; len2 > 0; len2 >>= 1) {
    if (len2 & 1) power = times(power, square);
    square = times(square, square);
  }
  return times(power, crc1) ^ crc2;
}

extern "C" uint32_t bk_crc32c(uint32_t crc, const char* p, size_t n, int table) {
  return table ? ~by_table(~crc, p, n) : rocksdb::crc32c::Extend(crc, p, n);
}

extern "C" uint32_t bk_crc32c_combine(uint32_t crc1, uint32_t crc2, size_t len2) {
  return rocksdb::crc32c::Crc32cCombine(crc1, crc2, len2);
}
