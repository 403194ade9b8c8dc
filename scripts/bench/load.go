package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/redisclient"
)

// value is a value of redis-benchmark's size -d.
var value = strings.Repeat("x", valueSize)

const valueSize = 128

// loader fills a server with data, in pipelines of variadic commands.
type loader struct {
	c    *redisclient.Conn
	made map[string]bool // keys and prefixes that exist
	anew bool            // recreate what exists
}

func newLoader(addr string) (*loader, error) {
	c, err := redisclient.Dial(addr, time.Minute)
	if err != nil {
		return nil, err
	}
	return &loader{c: c, made: map[string]bool{}}, nil
}

// elements is the max number of elements in one command, and inFlight the number of commands that are sent before their
// replies are read.
const (
	elements = 100
	inFlight = 32
)

// each sends one command for every run of up to `elements` numbers below n.
func (l *loader) each(n int, args func(from, to int) []string) error {
	for from := 0; from < n; from += elements {
		if err := l.c.Send(args(from, min(from+elements, n))...); err != nil {
			return err
		}
		if l.c.Pending() == inFlight {
			if err := l.finish(); err != nil {
				return err
			}
		}
	}
	return l.finish()
}

func (l *loader) finish() error {
	if err := l.c.Flush(); err != nil {
		return err
	}
	return l.c.Drain()
}

// strings sets prefix followed by each number below n, in 12 digits.
func (l *loader) strings(prefix string, n int) error {
	if l.made[prefix] && !l.anew {
		return nil
	}
	err := l.each(n, func(from, to int) []string {
		args := []string{"MSET"}
		for i := from; i < to; i++ {
			args = append(args, prefix+digits(i), value)
		}
		return args
	})
	l.made[prefix] = err == nil
	return err
}

// collection recreates key with n elements: command is HSET, RPUSH, SADD or ZADD (where element i has score i).
func (l *loader) collection(command, key string, n int) error {
	if l.made[key] && !l.anew {
		return nil
	}
	if err := l.c.Send("DEL", key); err != nil {
		return err
	}
	err := l.each(n, func(from, to int) []string {
		args := []string{command, key}
		for i := from; i < to; i++ {
			element := "e:" + digits(i)
			switch command {
			case "HSET":
				args = append(args, element, value)
			case "ZADD":
				args = append(args, strconv.Itoa(i), element)
			case "RPUSH":
				args = append(args, value)
			default:
				args = append(args, element)
			}
		}
		return args
	})
	l.made[key] = err == nil
	return err
}

// digits returns n in the form in which redis-benchmark writes a __rand_int__.
func digits(n int) string { return fmt.Sprintf("%012d", n) }
