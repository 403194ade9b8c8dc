// What the native tests share: a check that ends the program with the place, and random numbers that repeat.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define CHECK(ok, ...)                                          \
  do {                                                          \
    if (!(ok)) {                                                \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #ok);  \
      fprintf(stderr, __VA_ARGS__);                             \
      fputc('\n', stderr);                                      \
      exit(1);                                                  \
    }                                                           \
  } while (0)

// Random is splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : s_(seed) {}
  uint64_t next() {
    uint64_t z = (s_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t n) { return next() % n; }

 private:
  uint64_t s_;
};
