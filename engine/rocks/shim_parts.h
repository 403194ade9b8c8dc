// Reading parts of one large value without copying the rest.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// bk_get_parts copies n bytes from each of count offsets of the value of a key into out, one after the other.
// A part that does not lie within the value is left as it is in out. Returns the length of the value, -1 when
// there is none, -2 on an error.
int64_t bk_get_parts(void* db, void* cf, const char* key, size_t klen, const uint32_t* offsets, int count, size_t n,
                     char* out, char** err);

#ifdef __cplusplus
}
#endif
