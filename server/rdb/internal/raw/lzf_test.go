package raw

import "testing"

func FuzzDecompress(f *testing.F) {
	f.Add([]byte("\x01aa\xe0\x09\x00"), 20)
	f.Add([]byte("\x02abc"), 3)
	f.Fuzz(func(t *testing.T, src []byte, n int) {
		if n < 0 || n > 1<<16 {
			return
		}
		if decompress(make([]byte, n), src) && n > len(src)*maxLZFRatio {
			t.Fatalf("%d bytes out of %d", n, len(src))
		}
	})
}
