package str

// Part is a run of bytes of the longest common subsequence of two strings that is contiguous in both: the positions of
// its first and its last byte in each string.
type Part struct {
	AStart, AEnd int
	BStart, BEnd int
}

// Len returns the length of the run in bytes.
func (p Part) Len() int { return p.AEnd - p.AStart + 1 }

// LCSCost returns the size in bytes of the full table of lengths, by which Redis limits the command: (len(a)+1) ×
// (len(b)+1) entries of 4 bytes. The functions here need far less.
func LCSCost(a, b []byte) uint64 { return (uint64(len(a)) + 1) * (uint64(len(b)) + 1) * 4 }

// LCSLen returns the length of the longest common subsequence of two strings. Its time is proportional to the product
// of their lengths, its memory is 4 bytes for each byte of the shorter one.
func LCSLen(a, b []byte) int {
	if len(a) < len(b) {
		a, b = b, a
	}
	row := make([]uint32, len(b)+1)
	for _, c := range a {
		diagonal := uint32(0) // the entry of the previous row to the left
		for j, d := range b {
			above := row[j+1]
			if c == d {
				row[j+1] = diagonal + 1
			} else {
				row[j+1] = max(above, row[j])
			}
			diagonal = above
		}
	}
	return int(row[len(b)])
}

// LCS returns the longest common subsequence of two strings and the runs that it consists of, from the last to the
// first. If several are longest, it returns the one that Redis finds.
//
// It keeps one row of lengths and one bit for each pair of bytes.
func LCS(a, b []byte) (common []byte, parts []Part) {
	// Bit i×width+j: the path back from (i, j), where the bytes differ, leaves out a[i], because that costs less than
	// leaving out b[j].
	width := len(b)
	dropA := make([]uint64, (len(a)*width+63)/64)
	row := make([]uint32, width+1)
	at := 0
	for _, c := range a {
		diagonal := uint32(0)
		for j, d := range b {
			above, left := row[j+1], row[j]
			switch {
			case c == d:
				row[j+1] = diagonal + 1
			case above > left:
				dropA[at>>6] |= 1 << (at & 63)
			default:
				row[j+1] = left
			}
			diagonal = above
			at++
		}
	}
	n := int(row[width])
	common = make([]byte, n)
	i, j := len(a)-1, width-1
	open := false
	for i >= 0 && j >= 0 {
		if a[i] == b[j] {
			n--
			common[n] = a[i]
			if !open {
				parts = append(parts, Part{AEnd: i, BEnd: j})
				open = true
			}
			p := &parts[len(parts)-1]
			p.AStart, p.BStart = i, j
			i--
			j--
			continue
		}
		open = false
		if at := i*width + j; dropA[at>>6]&(1<<(at&63)) != 0 {
			i--
		} else {
			j--
		}
	}
	return common, parts
}
