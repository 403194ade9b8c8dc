package engine

import "github.com/basaltdb/basalt/engine/rocks/malloc"

// TrimMemory gives back to the system what the C library holds of freed memory, if it is much, and reports whether it has. It may take
// a tenth of a second for each GiB.
func TrimMemory() bool { return malloc.Trim() }
