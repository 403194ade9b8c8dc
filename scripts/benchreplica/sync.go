package main

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/launch"
	"github.com/basaltdb/basalt/scripts/internal/loadgen"
	"github.com/basaltdb/basalt/scripts/internal/tool"
)

const mib = 1 << 20

// sync measures a full synchronisation of incompressible data, and compares it with cp.
func (b *bench) sync(dir string) error {
	master, err := b.start(dir, "master")
	if err != nil {
		return err
	}
	defer master.Kill()
	if err := b.fill(master.Addr); err != nil {
		return fmt.Errorf("filling: %w", err)
	}
	if _, err := master.Do("FLUSHMEMTABLE"); err != nil {
		return err
	}
	if err := master.Settled(b.ctx); err != nil {
		return err
	}
	var took, cps, synced []float64
	var memory [2]int64
	var size int64
	for range 3 {
		r, err := b.syncOnce(dir, master)
		if err != nil {
			return err
		}
		size = r.size
		took, cps, synced = append(took, r.took.Seconds()), append(cps, r.cp.Seconds()), append(synced, r.onDisk.Seconds())
		for i := range memory {
			memory[i] = max(memory[i], r.memory[i])
		}
	}
	rate := func(seconds float64) float64 { return float64(size) / mib / seconds }
	t := tool.Median(took)
	b.report("sync: rate of a full synchronisation / cp and sync", tool.Median(synced)/t, 0.8, false,
		fmt.Sprintf("%d MiB in %.2f s; %.0f MiB a second, cp and sync %.0f, cp alone %.0f (%.2f)", size/mib, t, rate(t),
			rate(tool.Median(synced)), rate(tool.Median(cps)), tool.Median(cps)/t))
	for i, who := range []string{"master", "replica"} {
		b.report("sync: MiB of memory more, "+who, float64(memory[i])/mib, 100, true, "")
	}
	return nil
}

// syncResult is the cost of one full synchronisation, and of a copy of its files.
type syncResult struct {
	size             int64
	took, cp, onDisk time.Duration
	memory           [2]int64 // additional bytes, of master and replica
}

func (b *bench) syncOnce(dir string, master *launch.Server) (r syncResult, err error) {
	replica, err := b.start(dir, "replica")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(filepath.Join(dir, "replica"))
	defer replica.Kill()
	if _, err := replica.Do("SET", "own", "write"); err != nil { // so that only a full synchronisation removes it
		return r, err
	}
	both := [2]*launch.Server{master, replica}
	for i, s := range both {
		if err := s.ResetPeak(); err != nil {
			return r, err
		}
		if r.memory[i], err = s.PeakResident(); err != nil {
			return r, err
		}
	}
	began := time.Now()
	host, port, _ := strings.Cut(master.Addr, ":")
	if _, err := replica.Do("SLAVEOF", host, port); err != nil {
		return r, err
	}
	if err := b.await(func() (bool, error) {
		n, err := replica.Info("replication", "slave_full_syncs")
		return n == "1", err
	}); err != nil {
		return r, err
	}
	r.took = time.Since(began)
	if err := b.level(master, func() (int64, error) { return offset(replica) }); err != nil {
		return r, err
	}
	for i, s := range both {
		p, err := s.PeakResident()
		if err != nil {
			return r, err
		}
		r.memory[i] = p - r.memory[i]
	}
	// The received files are copied once more, to the same file system. No compaction runs meanwhile.
	replica.Kill()
	db := filepath.Join(dir, "replica", "db")
	if r.size, err = treeSize(db); err != nil {
		return r, err
	}
	r.cp, r.onDisk, err = copyTree(db, filepath.Join(dir, "copy"))
	return r, err
}

// fill writes incompressible values of 4 KiB, in the order of their keys.
func (b *bench) fill(addr string) error {
	const size = 4096
	next, set := 0, loadgen.Set(size)
	_, err := loadgen.Run(b.ctx, loadgen.Load{Addr: addr, Connections: 1, Pipeline: 64,
		Requests: int64(b.syncMB) * mib / size, Next: func(*rand.Rand) (*loadgen.Op, int) { next++; return set, next - 1 }})
	return err
}

// treeSize returns the size in bytes of all files in a directory tree.
func treeSize(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		i, err := d.Info()
		if err == nil {
			size += i.Size()
		}
		return err
	})
	return size, err
}

// copyTree copies a directory with cp, and then syncs the copy, as a full synchronisation does.
func copyTree(from, to string) (copied, onDisk time.Duration, err error) {
	began := time.Now()
	if out, err := exec.Command("cp", "-r", from, to).CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("cp: %w: %s", err, out)
	}
	copied = time.Since(began)
	if err := exec.Command("sync", "-f", to).Run(); err != nil {
		return 0, 0, fmt.Errorf("sync: %w", err)
	}
	onDisk = time.Since(began)
	return copied, onDisk, os.RemoveAll(to)
}
