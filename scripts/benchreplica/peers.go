package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/basaltdb/basalt/scripts/internal/launch"
	"github.com/basaltdb/basalt/scripts/internal/loadgen"
	"github.com/basaltdb/basalt/scripts/internal/redisclient"
)

// reply is the max time for a reply.
const reply = time.Minute

// offset returns the sequence number of the newest write of a server.
func offset(s *launch.Server) (int64, error) { return position(s, "master_repl_offset") }

func position(s *launch.Server, field string) (int64, error) {
	text, err := s.Info("replication", field)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// pin assigns the first core to the master and this process, and the second core to the replica. With one core it does
// nothing.
func pin(master, replica int) (undo func(), err error) {
	if runtime.NumCPU() < 2 {
		return func() {}, nil
	}
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, err
	}
	var cores []int
	for i := 0; len(cores) < 2; i++ {
		if all.IsSet(i) {
			cores = append(cores, i)
		}
	}
	set := func(pid int, to *unix.CPUSet) error {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		for _, t := range tasks {
			tid, _ := strconv.Atoi(t.Name())
			if err := unix.SchedSetaffinity(tid, to); err != nil && err != unix.ESRCH {
				return err
			}
		}
		return nil
	}
	var first, second unix.CPUSet
	first.Set(cores[0])
	second.Set(cores[1])
	for pid, to := range map[int]*unix.CPUSet{master: &first, os.Getpid(): &first, replica: &second} {
		if err := set(pid, to); err != nil {
			return nil, err
		}
	}
	return func() { set(os.Getpid(), &all) }, nil
}

// sink is a replica that discards the stream.
type sink struct {
	c    net.Conn
	done chan error
	n    int64 // bytes
}

// attach becomes a replica of a master, from its next write on.
func attach(master *launch.Server) (*sink, error) {
	at, err := offset(master)
	if err != nil {
		return nil, err
	}
	c, err := net.Dial("tcp", master.Addr)
	if err != nil {
		return nil, err
	}
	next := strconv.FormatInt(at+1, 10)
	c.SetDeadline(time.Now().Add(reply))
	fmt.Fprintf(c, "*2\r\n$5\r\nPSYNC\r\n$%d\r\n%s\r\n", len(next), next)
	in := bufio.NewReader(c)
	line, err := in.ReadString('\n')
	if err == nil && line != "+OK\r\n" {
		err = fmt.Errorf("PSYNC %s: %q", next, line)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	c.SetDeadline(time.Time{})
	s := &sink{c: c, done: make(chan error, 1)}
	go func() {
		buf := make([]byte, 1<<20)
		for {
			n, err := c.Read(buf)
			s.n += int64(n)
			if err != nil {
				s.done <- err
				return
			}
		}
	}()
	return s, nil
}

// close ends the link. It returns an error if the master has ended the link before, or has sent nothing.
func (s *sink) close() error {
	select {
	case err := <-s.done:
		return fmt.Errorf("the master has ended the link: %w", err)
	default:
	}
	s.c.Close()
	<-s.done
	if s.n == 0 {
		return io.ErrNoProgress
	}
	return nil
}

// paced sends SETs at a rate until ctx ends, in bursts of one pipeline for each connection.
func paced(ctx context.Context, addr string, rate float64, keys int) (sent int64, err error) {
	const connections, pipeline = 8, 16
	every := time.Duration(float64(connections*pipeline) / rate * float64(time.Second))
	type result struct {
		n   int64
		err error
	}
	results := make(chan result, connections)
	for range connections {
		go func() {
			var r result
			defer func() { results <- r }()
			c, err := net.Dial("tcp", addr)
			if err != nil {
				r.err = err
				return
			}
			defer c.Close()
			rnd := rand.New(rand.NewPCG(rand.Uint64(), 1))
			var out []byte
			in := make([]byte, pipeline*len("+OK\r\n"))
			for next := time.Now(); ctx.Err() == nil; next = next.Add(every) {
				time.Sleep(time.Until(next))
				out = out[:0]
				for range pipeline {
					out = loadgen.AppendSet(out, rnd, rnd.IntN(keys), 128)
				}
				c.SetDeadline(time.Now().Add(reply))
				if _, r.err = c.Write(out); r.err != nil {
					return
				}
				if _, r.err = io.ReadFull(c, in); r.err != nil {
					return
				}
				r.n += pipeline
			}
		}()
	}
	for range connections {
		r := <-results
		sent += r.n
		if err == nil {
			err = r.err
		}
	}
	return sent, err
}

// probe repeatedly writes a number on the master, and reads it on the replica until it is there.
func probe(ctx context.Context, master, replica string) (*loadgen.Histogram, error) {
	m, err := redisclient.Dial(master, reply)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r, err := redisclient.Dial(replica, reply)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var lags loadgen.Histogram
	for n := 0; ctx.Err() == nil; n++ {
		want := strconv.Itoa(n)
		m.SetDeadline(time.Now().Add(reply))
		r.SetDeadline(time.Now().Add(reply))
		if _, err := m.Do("SET", "probe", want); err != nil {
			return nil, err
		}
		began := time.Now()
		for {
			v, err := r.Do("GET", "probe")
			if err != nil {
				return nil, err
			}
			if v.String() == want {
				break
			}
			time.Sleep(200 * time.Microsecond)
		}
		lags.Add(time.Since(began), 1)
		time.Sleep(5 * time.Millisecond)
	}
	return &lags, nil
}
