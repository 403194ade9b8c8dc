package main

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/launch"
	"github.com/basaltdb/basalt/scripts/internal/loadgen"
	"github.com/basaltdb/basalt/scripts/internal/redisclient"
)

const mib = 1 << 20

// sync measures a full synchronisation of incompressible data, and compares it with cp.
func (b *bench) sync(dir string) error {
	master, err := b.start(dir, "master")
	if err != nil {
		return err
	}
	defer master.Kill()
	if err := fill(master.Addr, int64(b.syncMB)*mib); err != nil {
		return fmt.Errorf("filling: %w", err)
	}
	if err := order(master.Addr, "FLUSHMEMTABLE"); err != nil {
		return err
	}
	if err := b.settled(master.Addr); err != nil {
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
	t := median(took)
	b.report("sync: rate of a full synchronisation / cp and sync", median(synced)/t, 0.8, false,
		fmt.Sprintf("%d MiB in %.2f s; %.0f MiB a second, cp and sync %.0f, cp alone %.0f (%.2f)", size/mib, t, rate(t),
			rate(median(synced)), rate(median(cps)), median(cps)/t))
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
	if err := order(replica.Addr, "SET", "own", "write"); err != nil { // so that only a full synchronisation removes it
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
	if err := order(replica.Addr, "SLAVEOF", host, port); err != nil {
		return r, err
	}
	if err := b.await(func() (bool, error) {
		n, err := info(replica.Addr, "replication", "slave_full_syncs")
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

// fill writes incompressible values of 4 KiB.
func fill(addr string, bytes int64) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	const size, pipeline = 4096, 64
	r := rand.New(rand.NewPCG(1, 1))
	in := make([]byte, pipeline*len("+OK\r\n"))
	var out []byte
	for key := 0; int64(key)*size < bytes; {
		out = out[:0]
		for range pipeline {
			out = loadgen.AppendSet(out, r, key, size)
			key++
		}
		c.SetDeadline(time.Now().Add(reply))
		if _, err := c.Write(out); err != nil {
			return err
		}
		for got := 0; got < len(in); {
			n, err := c.Read(in[got:])
			if err != nil {
				return err
			}
			got += n
		}
	}
	return nil
}

// order sends a command.
func order(addr string, args ...string) error {
	_, err := redisclient.Do(addr, reply, args...)
	return err
}

// settled waits until no compaction is running.
func (b *bench) settled(addr string) error {
	quiet := 0
	return b.await(func() (bool, error) {
		n, err := info(addr, "rocksdb", "num_running_compactions")
		if quiet++; n != "0" {
			quiet = 0
		}
		return quiet > 25, err
	})
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
