// Package peertest plays the other end of a migration's connection, for tests.
package peertest

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync"

	"github.com/basaltdb/basalt/server/wire/wiretest"
)

// Node answers commands. The zero value answers every command with +OK.
type Node struct {
	// Answer returns the reply to a command, "" = +OK, or false to close the connection.
	Answer func(cmd []string) (reply string, ok bool)

	mu  sync.Mutex
	got [][]string
}

// Dial connects to the node. It ignores the address.
func (n *Node) Dial(context.Context, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go n.serve(theirs)
	return ours, nil
}

// Commands returns the commands received so far, and forgets them.
func (n *Node) Commands() [][]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	got := n.got
	n.got = nil
	return got
}

func (n *Node) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	replies := make(chan string, 1000) // a peer sends several commands before it reads
	defer close(replies)
	go func() {
		for r := range replies {
			io.WriteString(c, r)
		}
	}()
	for {
		cmd, err := wiretest.ReadCommand(in)
		if err != nil {
			return
		}
		n.mu.Lock()
		n.got = append(n.got, cmd)
		n.mu.Unlock()
		reply, ok := "", true
		if n.Answer != nil {
			reply, ok = n.Answer(cmd)
		}
		if !ok {
			return
		}
		if reply == "" {
			reply = "+OK\r\n"
		}
		replies <- reply
	}
}
