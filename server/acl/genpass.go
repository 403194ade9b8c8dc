package acl

import (
	"crypto/rand"
	"encoding/hex"
)

// MaxPasswordBits is the most that GeneratePassword makes.
const MaxPasswordBits = 4096

// GeneratePassword returns a random password of at least so many bits, 1 to MaxPasswordBits, as (bits+3)/4 digits in
// hexadecimal.
func GeneratePassword(bits int) string {
	digits := (bits + 3) / 4
	b := make([]byte, (digits+1)/2)
	rand.Read(b) // never fails
	return hex.EncodeToString(b)[:digits]
}
