package lua

// The fields of an instruction of the virtual machine: 6 bits of operation, then A of 8 bits and B and C of 9 bits
// each, C first, or A and Bx of 18 bits.

func opcode(inst uint32) int { return int(inst >> 26) }
func argA(inst uint32) int   { return int(inst>>18) & 0xff }
func argB(inst uint32) int   { return int(inst & 0x1ff) }
func argC(inst uint32) int   { return int(inst>>9) & 0x1ff }
func argBx(inst uint32) int  { return int(inst & 0x3ffff) }
func argSBx(inst uint32) int { return argBx(inst) - 1<<17 + 1 }

// codedSize decodes a number of elements of NEWTABLE: those above 15 have 3 bits of mantissa.
func codedSize(n int) int {
	if n >= 16 {
		n = (n&7 + 8) << (n>>3 - 1)
	}
	return n
}
