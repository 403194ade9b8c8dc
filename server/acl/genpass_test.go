package acl_test

import (
	"strings"
	"testing"

	"github.com/basaltdb/basalt/server/acl"
)

func TestGeneratePassword(t *testing.T) {
	seen := map[string]bool{}
	for _, bits := range []int{1, 4, 5, 8, 128, 256, 4096} {
		p := acl.GeneratePassword(bits)
		if len(p) != (bits+3)/4 || strings.Trim(p, "0123456789abcdef") != "" {
			t.Errorf("%d bits: %q", bits, p)
		}
		if bits >= 128 {
			if seen[p] || p == acl.GeneratePassword(bits) {
				t.Errorf("%q twice", p)
			}
			seen[p] = true
		}
	}
}
