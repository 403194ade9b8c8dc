package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

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

// elements is the max number of elements in one command, and inFlight the number of commands that are sent before their
// replies are read.
const (
	elements = 100
	inFlight = 32
)

// each sends one command for every run of up to per numbers below n.
func (l *loader) each(n, per int, args func(from, to int) []string) error {
	for from := 0; from < n; from += per {
		if err := l.c.Send(args(from, min(from+per, n))...); err != nil {
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

// once creates the data named name, unless they exist: it sends first, and then each.
func (l *loader) once(name string, n, per int, args func(from, to int) []string, first ...[]string) error {
	if l.made[name] && !l.anew {
		return nil
	}
	for _, command := range first {
		if err := l.c.Send(command...); err != nil {
			return err
		}
	}
	err := l.each(n, per, args)
	l.made[name] = err == nil
	return err
}

// oneEach is once with one command for each number.
func (l *loader) oneEach(name string, n int, args func(i int) []string, first ...[]string) error {
	return l.once(name, n, 1, func(i, _ int) []string { return args(i) }, first...)
}

// variadic is once with commands that begin with head, followed by the words of several elements.
func (l *loader) variadic(name string, n int, head []string, words func(i int) []string, first ...[]string) error {
	return l.once(name, n, elements, func(from, to int) []string {
		args := slices.Clone(head)
		for i := from; i < to; i++ {
			args = append(args, words(i)...)
		}
		return args
	}, first...)
}

// strings sets prefix followed by each number below n, in 12 digits.
func (l *loader) strings(prefix string, n int) error {
	return l.variadic(prefix, n, []string{"MSET"}, func(i int) []string { return []string{prefix + digits(i), value} })
}

// collection recreates key with n elements: command is HSET, RPUSH, SADD or ZADD (where element i has score i).
func (l *loader) collection(command, key string, n int) error {
	return l.variadic(key, n, []string{command, key}, func(i int) []string {
		element := "e:" + digits(i)
		switch command {
		case "HSET":
			return []string{element, value}
		case "ZADD":
			return []string{strconv.Itoa(i), element}
		case "RPUSH":
			return []string{value}
		}
		return []string{element}
	}, []string{"DEL", key})
}

// digits returns n in the form in which redis-benchmark writes a __rand_int__.
func digits(n int) string { return fmt.Sprintf("%012d", n) }
