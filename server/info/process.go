package info

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Revision returns the commit from which the binary was built.
var Revision = sync.OnceValue(func() string {
	if b, ok := debug.ReadBuildInfo(); ok {
		for _, kv := range b.Settings {
			if kv.Key == "vcs.revision" {
				return kv.Value[:min(8, len(kv.Value))]
			}
		}
	}
	return "00000000"
})

// Executable returns the path of the program.
var Executable = sync.OnceValue(func() string {
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return path
})

// OS returns the name and release of the operating system.
var OS = sync.OnceValue(func() string {
	var u syscall.Utsname
	if syscall.Uname(&u) != nil {
		return runtime.GOOS
	}
	text := func(field [65]int8) string {
		var b []byte
		for _, c := range field {
			if c == 0 {
				break
			}
			b = append(b, byte(c))
		}
		return string(b)
	}
	return text(u.Sysname) + " " + text(u.Release) + " " + text(u.Machine)
})

// ResidentBytes returns the resident set size and its peak, in bytes.
func ResidentBytes() (now, peak int64) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0
	}
	kib := func(name string) int64 {
		_, rest, ok := strings.Cut(string(b), "\n"+name+":")
		f := strings.Fields(rest)
		if !ok || len(f) == 0 {
			return 0
		}
		n, _ := strconv.ParseInt(f[0], 10, 64)
		return n << 10
	}
	return kib("VmRSS"), kib("VmHWM")
}

// residentFiles returns the resident bytes of mapped files: the program and libraries.
func residentFiles() int64 {
	b, err := os.ReadFile("/proc/self/statm") // in pages: size, resident, of files, ...
	if f := strings.Fields(string(b)); err == nil && len(f) > 2 {
		n, _ := strconv.ParseInt(f[2], 10, 64)
		return n * int64(os.Getpagesize())
	}
	return 0
}

// heapBytes returns the size of the objects in Go's heap, and Go's memory from the system without what was returned.
func heapBytes() (objects, total int64) {
	m := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(m)
	return int64(m[0].Value.Uint64()), int64(m[1].Value.Uint64() - m[2].Value.Uint64())
}

var totalMemory = sync.OnceValue(func() int64 {
	var i syscall.Sysinfo_t
	if syscall.Sysinfo(&i) != nil {
		return 0
	}
	return int64(i.Totalram) * int64(i.Unit)
})

// CPU writes the CPU section.
func CPU(w *Writer, _ string) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return
	}
	for _, t := range []struct {
		name string
		at   syscall.Timeval
	}{{"used_cpu_sys", u.Stime}, {"used_cpu_user", u.Utime}} {
		seconds := float64(t.at.Sec) + float64(t.at.Usec)/1e6
		w.Add(Field{Name: t.name, Kind: Counter, Unit: Seconds, Float: seconds, Decimals: 6})
	}
}

// diskUsage returns the capacity of a directory's file system and how much of it is used, in bytes.
func diskUsage(dir string) (capacity, used int64) {
	var st syscall.Statfs_t
	if syscall.Statfs(dir, &st) != nil {
		return 0, 0
	}
	capacity = int64(st.Blocks) * st.Bsize
	return capacity, capacity - int64(st.Bavail)*st.Bsize
}
