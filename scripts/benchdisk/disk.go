package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// diskRate is the rate of random reads of the disk.
type diskRate struct {
	Bytes int     `json:"bytes"` // of a read
	Depth int     `json:"depth"` // concurrent reads
	Rate  float64 `json:"reads_per_second"`
}

// measureDisk reads at random positions, bypassing the page cache, from a file of the given size that it creates in dir
// and removes.
func measureDisk(ctx context.Context, dir string, size int64, duration time.Duration) ([]diskRate, error) {
	path := filepath.Join(dir, "disk")
	defer os.Remove(path)
	if err := writeDirect(ctx, path, size); err != nil {
		return nil, fmt.Errorf("measuring the disk: %w", err)
	}
	var out []diskRate
	for _, bytes := range []int{4 << 10, 16 << 10} {
		for _, depth := range []int{1, connections} {
			rate, err := readDirect(ctx, path, size, bytes, depth, duration)
			if err != nil {
				return nil, fmt.Errorf("measuring the disk: %w", err)
			}
			out = append(out, diskRate{bytes, depth, rate})
		}
	}
	return out, nil
}

// aligned returns a buffer with the alignment of O_DIRECT.
func aligned(size int) []byte {
	const page = 4096
	b := make([]byte, size+page)
	skip := page - int(uintptr(unsafe.Pointer(&b[0]))%page)
	return b[skip : skip+size]
}

// writeDirect writes a file of random bytes: reading blocks that were never written would not reach the disk.
func writeDirect(ctx context.Context, path string, size int64) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|syscall.O_DIRECT, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	b := aligned(4 * mib)
	r := rand.NewChaCha8([32]byte{2})
	r.Read(b)
	for at := int64(0); at < size; at += int64(len(b)) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := f.Write(b); err != nil {
			return err
		}
	}
	return f.Sync()
}

// readDirect returns the rate of reads of a size per second.
func readDirect(
	ctx context.Context, path string, size int64, bytes, depth int, duration time.Duration,
) (float64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	// A thread that waits for the disk occupies one of these until the runtime notices.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(depth + 1))
	var total atomic.Int64
	var failed atomic.Value
	var wg sync.WaitGroup
	begin := time.Now()
	for i := range depth {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), uint64(bytes)))
			b := aligned(bytes)
			n := int64(0)
			for time.Since(begin) < duration && ctx.Err() == nil {
				if _, err := f.ReadAt(b, r.Int64N(size/int64(bytes))*int64(bytes)); err != nil {
					failed.Store(err)
					return
				}
				n++
			}
			total.Add(n)
		})
	}
	wg.Wait()
	if err, ok := failed.Load().(error); ok {
		return 0, err
	}
	return float64(total.Load()) / time.Since(begin).Seconds(), ctx.Err()
}
