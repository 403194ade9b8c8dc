// Reads parts of one large value without copying the rest.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// bk_get_parts copies n bytes from each of count offsets of a value into out, one slice after the other. A slice that
// is not completely within the value leaves its part of out unchanged. It returns the length of the value, -1 if the
// key does not exist, -2 on an error.
int64_t bk_get_parts(void* db, void* cf, const char* key, size_t klen, const uint32_t* offsets, int count, size_t n,
                     char* out, char** err);

#ifdef __cplusplus
}
#endif
