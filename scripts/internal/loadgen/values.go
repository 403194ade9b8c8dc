package loadgen

import (
	"math/rand/v2"
	"strconv"
)

// Digits is the length of a number in a key: 12, as redis-benchmark writes a __rand_int__.
const Digits = 12

// AppendDigits appends n, which is not negative, in Digits digits.
func AppendDigits(dst []byte, n int) []byte {
	dst = append(dst, "000000000000"...)
	for i := len(dst) - 1; n > 0; i-- {
		dst[i] += byte(n % 10)
		n /= 10
	}
	return dst
}

// noise is what values are cut from.
var noise = func() []byte {
	b := make([]byte, 8<<20)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(b)
	return b
}()

// AppendValue appends a value of size bytes, at least Digits: the number, by which a reader tells whose value it is,
// and random bytes.
func AppendValue(dst []byte, r *rand.Rand, n, size int) []byte {
	dst = AppendDigits(dst, n)
	from := r.IntN(len(noise) - size)
	return append(dst, noise[from:from+size-Digits]...)
}

// AppendSet appends a SET of the key "key:" and its number to a value of size bytes.
func AppendSet(dst []byte, r *rand.Rand, key, size int) []byte {
	dst = append(dst, "*3\r\n$3\r\nSET\r\n$16\r\nkey:"...)
	dst = append(AppendDigits(dst, key), "\r\n$"...)
	dst = append(strconv.AppendInt(dst, int64(size), 10), "\r\n"...)
	return append(AppendValue(dst, r, key, size), "\r\n"...)
}

// Set returns the operation of AppendSet.
func Set(size int) *Op {
	return &Op{
		Encode: func(dst []byte, r *rand.Rand, key int) []byte { return AppendSet(dst, r, key, size) },
		Check:  func(reply []byte, _ int) bool { return string(reply) == "+OK\r\n" },
	}
}
