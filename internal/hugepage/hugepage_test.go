package hugepage

import (
	"runtime"
	"testing"
)

// A slab is zeroed, counts the huge pages that were written to, and no others.
func TestSlabKnowsWhatIsResident(t *testing.T) {
	owner := new([8]int)
	s, ok := MapSlab(owner, 8*pageSize)
	if !ok {
		t.Fatal("no memory")
	}
	for i := range 4 {
		if s.Bytes[i*pageSize] != 0 {
			t.Fatal("a byte is set")
		}
	}
	if n := s.Resident(); n != 0 {
		t.Fatalf("%d bytes are resident before the first write", n)
	}
	s.Write(pageSize, pageSize+8)[0] = 1
	s.Write(3*pageSize, 3*pageSize+1)[0] = 2
	if n := s.Resident(); n != 2*pageSize {
		t.Fatalf("%d bytes are resident", n)
	}
	if s.Bytes[pageSize] != 1 || s.Bytes[3*pageSize] != 2 {
		t.Fatal("what was written is not there")
	}
	runtime.KeepAlive(owner)
}

// More address space than there is gives no memory, and no panic.
func TestMapRefuses(t *testing.T) {
	if _, ok := Map[[1 << 40]byte](new([8]int), 1<<10); ok {
		t.Fatal("a petabyte was mapped")
	}
}
