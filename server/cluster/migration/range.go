package migration

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/cf"
)

// ParseRange reads "7" or "7-9".
func ParseRange(s string) (r cf.SlotRange, err error) {
	first, last, two := strings.Cut(strings.TrimSpace(s), "-")
	if !two {
		last = first
	}
	a, err := strconv.ParseUint(first, 10, 16)
	if err != nil {
		return r, err
	}
	b, err := strconv.ParseUint(last, 10, 16)
	if err != nil {
		return r, err
	}
	if a > b || b >= cf.NumSlots {
		return r, fmt.Errorf("slots %q are out of range", s)
	}
	return cf.SlotRange{First: uint16(a), Last: uint16(b)}, nil
}
