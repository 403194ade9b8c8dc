package migrate

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// follower makes the target follow the source as its replica.
type follower struct {
	from, to *peer

	lastError string
	since     time.Time // when lastError was first seen
}

// begin makes the target a replica of the source, unless it is one already.
func (f *follower) begin(replace bool) error {
	if f.from.addr.Network != "tcp" {
		return errors.New("the target needs HOST:PORT of the source, to follow it")
	}
	host, port, err := net.SplitHostPort(f.from.addr.Host)
	if err != nil {
		return err
	}
	if host == "" {
		return errors.New("the address of the source has no host")
	}
	fields, err := f.to.info("replication")
	if err != nil {
		return err
	}
	if fields["role"] == "slave" {
		if fields["master_host"] == host && fields["master_port"] == port {
			return nil
		}
		return fmt.Errorf("the target is a replica of %s:%s", fields["master_host"], fields["master_port"])
	}
	if err := f.fits(replace); err != nil {
		return err
	}
	for name, want := range map[string]string{"masterauth": f.from.addr.Password, "masteruser": f.from.addr.User} {
		if want == "" {
			continue
		}
		if _, err := f.to.do("CONFIG", "SET", name, want); err != nil {
			return err
		}
	}
	_, err = f.to.do("SLAVEOF", host, port)
	return err
}

// fits checks that the target can take the data of the source.
func (f *follower) fits(replace bool) error {
	theirs, err := f.to.databases()
	if err != nil {
		return err
	}
	if len(theirs) > 0 && !replace {
		return errNotEmpty
	}
	if f.from.addr.TLS != nil {
		if v, err := f.to.setting("tls-replication"); err != nil || v != "yes" {
			return errors.Join(errors.New("the target needs tls-replication yes to follow the source with TLS"), err)
		}
	}
	ours, err := f.from.databases()
	if err != nil || len(ours) == 0 {
		return err
	}
	dbs := sortedKeys(ours)
	last := dbs[len(dbs)-1]
	v, err := f.to.setting("redis-databases")
	if err != nil {
		return err
	}
	if n, _ := strconv.Atoi(v); last > 0 && last >= n {
		return fmt.Errorf("database %d of the source has keys: start the target with redis-databases %d",
			last, max(last+1, 16))
	}
	return nil
}

var errNotEmpty = errors.New("the target is not empty: --replace deletes its keys")

// patience is the max time for which a link may report the same error.
const patience = 20 * time.Second

// status implements mover.
func (f *follower) status() (status, error) {
	fields, err := f.to.info("replication")
	if err != nil {
		return status{}, err
	}
	if fields["role"] != "slave" {
		return status{}, errors.New("the target is no longer a replica")
	}
	var s status
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(fields[name], 10, 64)
		return n
	}
	s.offset = number("slave_repl_offset")
	if fields["master_link_status"] == "up" {
		f.lastError = ""
		s.streaming = true
		return s, nil
	}
	s.done, s.total = number("master_sync_read_bytes"), number("master_sync_total_bytes")
	s.note = fields["master_link_state"]
	if e := fields["master_link_error"]; e != "" && fields["master_sync_in_progress"] != "1" {
		s.note = e
		if e != f.lastError {
			f.lastError, f.since = e, time.Now()
		} else if time.Since(f.since) > patience {
			return s, fmt.Errorf("the target cannot follow the source: %s", e)
		}
	}
	return s, nil
}

// mark implements mover: the target's own log grows with each write of the source.
func (f *follower) mark() (string, error) {
	fields, err := f.to.info("keyspace")
	return fields["sequence"], err
}

// finish implements mover.
func (f *follower) finish() error {
	_, err := f.to.do("SLAVEOF", "NO", "ONE")
	return err
}

// stop implements mover: the target continues without this process.
func (f *follower) stop() {}

// oneLine joins the lines of a text, for a line on a terminal.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
