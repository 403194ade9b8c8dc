package raw

// maxLZFRatio is the max number of bytes from one compressed byte: a copy of 264 bytes takes 3.
const maxLZFRatio = 88

// decompress undoes the compression of LibLZF (Marc Lehmann). dst has the length that it must fill. A control byte c
// is followed by
//
//	c < 32   c+1 bytes that are taken as they are
//	else     a copy of bytes from before: length c>>5 + 2, where 7 is followed by a byte to be added; distance
//	         (c&31)<<8 + the next byte + 1
//
// It reports whether src was well-formed.
func decompress(dst, src []byte) bool {
	at := 0
	for len(src) > 0 {
		c := int(src[0])
		src = src[1:]
		if c < 32 {
			n := c + 1
			if n > len(src) || n > len(dst)-at {
				return false
			}
			at += copy(dst[at:], src[:n])
			src = src[n:]
			continue
		}
		n := c >> 5
		if n == 7 {
			if len(src) == 0 {
				return false
			}
			n += int(src[0])
			src = src[1:]
		}
		if len(src) == 0 {
			return false
		}
		n += 2
		from := at - (c&31)<<8 - int(src[0]) - 1
		src = src[1:]
		if from < 0 || n > len(dst)-at {
			return false
		}
		for range n { // one by one: the copy may overlap itself
			dst[at] = dst[from]
			at, from = at+1, from+1
		}
	}
	return at == len(dst)
}
