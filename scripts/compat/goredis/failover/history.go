package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/scripts/compat/goredis/internal/harness"
)

// history is a server's log from a sequence number on. The record of each number is a key of the load, or the id of the
// history, which accompanies the first write of a new master.
type history map[uint64]string

var written = regexp.MustCompile("value of key:[0-9]+|replication_id_\x10[0-9A-Z]{16}")

// read reads the log as a replica does, up to a sequence number, or else until the link ends. It wants to know every
// record. A server names its replicas to sentinels, so this one says that it is one of those. It does not say that it
// is the successor, because a server does not follow one of its own replicas.
func (h history) read(c net.Conn, as *server, from, to uint64) error {
	in := bufio.NewReader(c)
	for _, words := range [][]string{{"REPLCONF", "listening-port", strconv.Itoa(as.Port)},
		{"PSYNC", strconv.FormatUint(from, 10)}} {
		request := fmt.Sprintf("*%d\r\n", len(words))
		for _, w := range words {
			request += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
		}
		if _, err := io.WriteString(c, request); err != nil {
			return err
		}
		if line, err := in.ReadString('\n'); err != nil || line != "+OK\r\n" {
			return fmt.Errorf("%q: %q, %v", words, line, err)
		}
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil && to == 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(strings.Trim(line, "$\r\n"))
		if err != nil {
			return fmt.Errorf("a frame begins with %q", line)
		}
		frame := make([]byte, n+len("\r\n"))
		if _, err := io.ReadFull(in, frame); err != nil {
			return err
		}
		if frame = frame[:n]; string(frame) == "ping" {
			continue
		}
		seq, count := binary.LittleEndian.Uint64(frame), binary.LittleEndian.Uint32(frame[8:])
		records := written.FindAll(frame[12:], -1)
		if len(records) != int(count) {
			return fmt.Errorf("%d of the %d records from %d on are not known: %q", int(count)-len(records), count, seq, frame)
		}
		for i, r := range records {
			h[seq+uint64(i)] = strings.TrimPrefix(string(r), "value of ")
		}
		if to != 0 && seq+uint64(count) > to {
			return nil
		}
	}
}

// watcher reads the writes that a server makes after it has a successor.
type watcher struct {
	server, next, third *server
	from                uint64
	c                   net.Conn
	h                   history
	ended               chan error
}

// watch reads the log of a server from a sequence number on. Before that number its successor has the same log.
func watch(s, next, third *server, from uint64) (*watcher, error) {
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(2 * harness.Patience))
	w := &watcher{server: s, next: next, third: third, from: from, c: c, h: history{}, ended: make(chan error, 1)}
	go func() { w.ended <- w.h.read(c, third, from, 0) }()
	return w, nil
}

// end ends the link, so that the server no longer has a replica of that name.
func (w *watcher) end() {
	w.c.Close()
	<-w.ended
}

// own returns the records that the server has written and its successor has not, in order. The server must have become
// a replica: then it no longer writes, and has ended the link if it discarded writes.
func (w *watcher) own() (records []string, err error) {
	w.c.Close()
	if err := <-w.ended; err != nil {
		return nil, fmt.Errorf("the log of %s: %w", w.server.Name, err)
	}
	if len(w.h) == 0 {
		return nil, nil
	}
	last := slices.Max(slices.Collect(maps.Keys(w.h)))
	c, err := net.Dial("tcp", w.next.Addr())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(harness.Patience))
	after := history{}
	if err := after.read(c, w.third, w.from, last); err != nil {
		return nil, fmt.Errorf("the log of %s: %w", w.next.Name, err)
	}
	for seq := w.from; seq <= last; seq++ {
		if len(records) > 0 || w.h[seq] != after[seq] {
			records = append(records, w.h[seq])
		}
	}
	return records, nil
}

// count returns the number of writes of the load among the records, before a number and from it on.
func count(records []string, number int64) (before, after int) {
	for _, r := range records {
		text, ok := strings.CutPrefix(r, "key:")
		if !ok {
			continue
		}
		if n, _ := strconv.ParseInt(text, 10, 64); n <= number {
			before++
		} else {
			after++
		}
	}
	return before, after
}
