package acl

import (
	"crypto/rand"
	"encoding/hex"
)

// MaxPasswordBits is the max number of bits of GeneratePassword.
const MaxPasswordBits = 4096

// GeneratePassword returns a random password of at least bits bits, 1 to MaxPasswordBits, as (bits+3)/4 hexadecimal
// digits.
func GeneratePassword(bits int) string {
	digits := (bits + 3) / 4
	b := make([]byte, (digits+1)/2)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)[:digits]
}
