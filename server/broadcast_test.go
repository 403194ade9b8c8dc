package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/server/servertest"
)

// A message reaches the subscribers of every node of a cluster once, whichever node it is published on, also from EXEC
// and scripts. A shard channel's reaches those of the nodes that have its slot.
func TestBroadcast(t *testing.T) {
	var all []*servertest.Harness
	var text strings.Builder
	for i, role := range []string{"master - 0-8191", "master - 8192-16383", "slave " + strings.Repeat("0", 40)} {
		h := servertest.Start(t, "cluster-enabled", "yes", "requirepass", "p")
		if i == 2 {
			h = servertest.Start(t, "cluster-enabled", "yes", "requirepass", "p", "masterauth", "p")
		}
		all = append(all, h)
		host, port, _ := strings.Cut(h.Addr(), ":")
		fmt.Fprintf(&text, "%s %s %s %s\n", strings.Repeat(fmt.Sprint(i), 40), host, port, role)
	}
	var clients, subscribers []*servertest.Client
	for i, h := range all {
		c := h.Dial(t)
		c.Want("AUTH p", "+OK\r\n")
		c.Want("CLUSTERX SETNODEID "+strings.Repeat(fmt.Sprint(i), 40), "+OK\r\n")
		if got := c.Do("CLUSTERX", "SETNODES", text.String(), "1"); got != "+OK\r\n" {
			t.Fatal(got)
		}
		clients = append(clients, c)
	}
	servertest.Eventually(t, "the replica's link", func() bool {
		return strings.Contains(clients[2].Do("INFO", "replication"), "master_link_status:up")
	})
	for _, h := range all {
		s := h.Dial(t)
		s.Want("AUTH p", "+OK\r\n")
		s.Do("SUBSCRIBE", "ch")
		subscribers = append(subscribers, s)
	}
	for i, publish := range []string{"PUBLISH ch %s", "MPUBLISH ch %s", "EVAL return(redis.call('PUBLISH','ch','%s')) 0"} {
		for from := range all {
			message := fmt.Sprint(i, "from", from)
			clients[from].Want(fmt.Sprintf(publish, message), ":1\r\n")
			for _, s := range subscribers {
				s.Expect(servertest.Bulk("message", "ch", message))
			}
		}
	}
	// "b" has slot 3300, the first master's.
	var shard []*servertest.Client
	for _, i := range []int{0, 2} {
		s := all[i].Dial(t)
		s.Want("AUTH p", "+OK\r\n")
		s.Do("SSUBSCRIBE", "b")
		shard = append(shard, s)
	}
	for _, from := range []int{0, 2} {
		message := fmt.Sprint("from", from)
		clients[from].Want("SPUBLISH b "+message, ":1\r\n")
		for _, s := range shard {
			s.Expect(servertest.Bulk("smessage", "b", message))
		}
	}
	// What another node passes on goes no further than to the replicas.
	node := all[0].Dial(t)
	node.Want("AUTH p", "+OK\r\n")
	node.Want("CLUSTERX RELAY", "+OK\r\n")
	node.Want("PUBLISH ch relayed", ":1\r\n")
	clients[0].Want("PUBLISH ch next", ":1\r\n")
	subscribers[1].Expect(servertest.Bulk("message", "ch", "next"))
	for _, i := range []int{0, 2} {
		subscribers[i].Expect(servertest.Bulk("message", "ch", "relayed"))
		subscribers[i].Expect(servertest.Bulk("message", "ch", "next"))
	}
	// Without the setting, messages stay on the node and its replicas, as in Kvrocks.
	clients[0].Want("CONFIG SET cluster-broadcast-publish no", "+OK\r\n")
	clients[0].Want("PUBLISH ch here", ":1\r\n")
	clients[1].Want("PUBLISH ch everywhere", ":1\r\n")
	subscribers[1].Expect(servertest.Bulk("message", "ch", "everywhere"))
	for _, i := range []int{0, 2} {
		subscribers[i].Expect(servertest.Bulk("message", "ch", "here"))
		subscribers[i].Expect(servertest.Bulk("message", "ch", "everywhere"))
	}
}
