package session_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/list"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/cluster"
	"github.com/basaltdb/basalt/server/cluster/topology"
	"github.com/basaltdb/basalt/server/servertest"
)

// clusterNode is a server that serves the slots below 8192. Another master, which does not exist, serves the slots from
// 8192 on, except the last one, which no node serves.
type clusterNode struct {
	*servertest.Harness
	*servertest.Client
	version int
}

// Ids and addresses of the nodes, and hash tags: mine and mine2 have different slots of this server, others has a slot
// of the other master, and nobodys has the slot that no node serves.
var (
	selfID    = strings.Repeat("a", 40)
	otherID   = strings.Repeat("b", 40)
	otherAddr = "127.0.0.1:7002"
	mine      = tagBelow(0, 8192)
	mine2     = tagBelow(int(cf.Slot([]byte(mine)))+1, 8192)
	others    = tagBelow(8192, cf.NumSlots-1)
	nobodys   = tagBelow(cf.NumSlots-1, cf.NumSlots)
)

// tagBelow returns a hash tag whose slot is in [from, to).
func tagBelow(from, to int) string {
	for i := 0; ; i++ {
		if s := int(cf.Slot(fmt.Append(nil, "t", i))); s >= from && s < to {
			return fmt.Sprint("t", i)
		}
	}
}

func movedTo(tag, addr string) string {
	return fmt.Sprintf("-MOVED %d %s\r\n", cf.Slot([]byte(tag)), addr)
}

func startNode(t *testing.T) *clusterNode {
	h := servertest.Start(t, "cluster-enabled", "yes")
	n := &clusterNode{Harness: h, Client: h.Dial(t)}
	n.Want("CLUSTERX SETNODEID "+selfID, "+OK\r\n")
	n.setNodes("0-8191", fmt.Sprintf("8192-%d", cf.NumSlots-2))
	return n
}

// setNodes sets a topology with the slots of this server and of the other master.
func (n *clusterNode) setNodes(own, theirs string) {
	n.T.Helper()
	n.version++
	_, port, _ := strings.Cut(n.Addr(), ":")
	text := fmt.Sprintf("%s 127.0.0.1 %s master - %s\n%s 127.0.0.1 7002 master - %s", selfID, port, own, otherID, theirs)
	if got := n.Do("CLUSTERX", "SETNODES", text, fmt.Sprint(n.version)); got != "+OK\r\n" {
		n.T.Fatal(got)
	}
}

// fill replaces {M}, {N}, {O} and {Z} in a text by the hash tags mine, mine2, others and nobodys.
var fill = strings.NewReplacer("{M}", "{"+mine+"}", "{N}", "{"+mine2+"}", "{O}", "{"+others+"}", "{Z}", "{"+nobodys+
	"}").Replace

func TestRouting(t *testing.T) {
	n := startNode(t)
	moved, cross := movedTo(others, otherAddr), "-CROSSSLOT Attempted to access keys that don't hash to the same slot\r\n"
	down := "-CLUSTERDOWN Hash slot not served\r\n"
	for _, x := range []struct{ command, reply string }{
		{"SET k{M} v", "+OK\r\n"}, {"GET k{M}", "$1\r\nv\r\n"}, {"SET k{O} v", moved}, {"GET k{O}", moved},
		{"GET k{Z}", down}, {"MGET k{M} l{M}", "*2\r\n$1\r\nv\r\n$-1\r\n"}, {"MGET k{M} k{N}", cross},
		{"MGET k{O} k{Z}", cross}, {"MSET k{O} 1 l{O} 2", moved}, {"DEL k{M} k{N}", cross}, {"EXISTS k{O}", moved},
		{"COPY k{M} l{M}", ":1\r\n"}, {"COPY k{M} l{N}", cross}, {"RENAME k{M} l{O}", cross},
		{"RESTORE k{O} 0 x", moved}, {"PING", "+PONG\r\n"}, {"DBSIZE", ":2\r\n"},
		{"GET", "-ERR wrong number of arguments for 'get' command\r\n"},
		{"SUNIONSTORE d{M} s{N} s{M}", cross}, {"ZUNION 2 a{M} b{N}", cross}, {"OBJECT ENCODING k{O}", moved},
		{"XREAD STREAMS s{O} 0", moved}, {"XREADGROUP GROUP g c STREAMS s{M} s{N} > >", cross}, {"BLPOP l{O} 1", moved},
		{"SORT s{O}", moved}, {"SORT s{M} BY w*", "-ERR BY option of SORT denied in cluster mode.\r\n"},
		{"SORT s{M} GET w*", "-ERR GET option of SORT denied in cluster mode.\r\n"}, {"SORT s{M} STORE d{N}", cross},
		{"EVAL return{} 1 k{O}", moved}, {"EVAL return{} 2 k{M} k{N}", cross}, {"EVAL return{} 0", "*0\r\n"},
		{"WATCH k{O}", moved}, {"WATCH k{M}", "+OK\r\n"}, {"UNWATCH", "+OK\r\n"},
		{"SPUBLISH c{O} m", moved}, {"SPUBLISH c{M} m", ":0\r\n"}, {"SSUBSCRIBE c{O}", moved},
		{"SSUBSCRIBE c{M} c{N}", cross}, {"PUBLISH c{O} m", ":0\r\n"},
		{"SUNSUBSCRIBE c{O}", "*3\r\n$12\r\nsunsubscribe\r\n$6\r\nc{O}\r\n:0\r\n"},
		{"READONLY", "+OK\r\n"}, {"GET k{O}", moved}, {"READWRITE", "+OK\r\n"}, {"ASKING", "+OK\r\n"}, {"GET k{O}", moved},
		{"CLUSTER KEYSLOT k{M}", fmt.Sprintf(":%d\r\n", cf.Slot([]byte(mine)))},
		{fmt.Sprintf("CLUSTER COUNTKEYSINSLOT %d", cf.Slot([]byte(mine))), ":2\r\n"},
		{fmt.Sprintf("CLUSTER GETKEYSINSLOT %d 1", cf.Slot([]byte(mine))), "*1\r\n$5\r\nk{M}\r\n"},
		{"CLUSTER MEET 127.0.0.1 7003",
			"-ERR CLUSTER MEET is not supported: there is no gossip, a controller sets the topology by " +
				"CLUSTERX SETNODES and CLUSTERX SETSLOT\r\n"},
		{"CLUSTER LINKS", "*0\r\n"}, {"CLUSTER MYID", "$40\r\n" + selfID + "\r\n"},
		{"CLUSTER MYSHARDID", "$40\r\n" + selfID + "\r\n"},
		{"CLUSTERX MYID", "$40\r\n" + selfID + "\r\n"},
		{"CLUSTERX VERSION", "$1\r\n1\r\n"}, {"CLUSTER COUNT-FAILURE-REPORTS " + otherID, ":0\r\n"},
		{"CLUSTERX SETSLOT 5-3 NODE " + selfID + " 2",
			"-ERR Invalid slot range: `5-3`. The slot range `int1-int2` needs to satisfy the " +
				"condition (int1 <= int2).\r\n"},
		{"CLUSTERX MIGRATE 16384 " + otherID, "-ERR Invalid slot id: out of numeric range\r\n"},
		{"CLUSTERX SETNODES x y", "-ERR Invalid version\r\n"}, {"SLAVEOF NO ONE",
			"-ERR can't change to slave in cluster mode\r\n"},
		{"REPLICAOF 127.0.0.1 1", "-ERR can't change to slave in cluster mode\r\n"},
	} {
		reply := fill(x.reply)
		for _, tag := range []string{mine, others} { // the lengths of keys and channels depend on the tags
			reply = strings.ReplaceAll(reply, "$5\r\nk{"+tag, fmt.Sprintf("$%d\r\nk{%s", len(tag)+3, tag))
			reply = strings.ReplaceAll(reply, "$6\r\nc{"+tag, fmt.Sprintf("$%d\r\nc{%s", len(tag)+3, tag))
		}
		n.Want(fill(x.command), reply)
	}
	help := n.Do("CLUSTER", "HELP")
	for _, sub := range []string{"COUNT-FAILURE-REPORTS <", "COUNTKEYSINSLOT <", "GETKEYSINSLOT <", "INFO\r", "KEYSLOT <",
		"LINKS\r", "MYID\r", "MYSHARDID\r", "NODES\r", "REPLICAS <", "RESET [", "SHARDS\r", "SLOTS\r", "HELP\r"} {
		if !strings.Contains(help, "\r\n+"+sub) {
			t.Errorf("CLUSTER HELP lacks %q: %q", sub, help)
		}
	}
	slots := n.Do("CLUSTER", "SLOTS")
	if !strings.HasPrefix(slots, "*2\r\n*3\r\n:0\r\n:8191\r\n*3\r\n$9\r\n127.0.0.1\r\n:") {
		t.Errorf("%q", slots)
	}
	if shards := n.Do("CLUSTER", "SHARDS"); strings.Count(shards, "replication-offset") != 2 {
		t.Errorf("%q", shards)
	}
	info, _ := servertest.ParseInfo(t, n.Do("INFO"))
	if info["cluster_enabled"] != "1" || info["redis_mode"] != "cluster" {
		t.Error(info["cluster_enabled"], info["redis_mode"])
	}
	if hello := n.Do("HELLO"); !strings.Contains(hello, "mode\r\n$7\r\ncluster") {
		t.Errorf("%q", hello)
	}
}

// The commands that list a slot run in a transaction of their own, not in what the run before has left.
func TestKeysInSlot(t *testing.T) {
	n := startNode(t)
	n.Want(fill("SET k{M} v"), "+OK\r\n")
	for range 20 {
		runtime.GC() // empties the pool of runs
		n.Want(fmt.Sprintf("CLUSTER COUNTKEYSINSLOT %d", cf.Slot([]byte(mine))), ":1\r\n")
	}
}

// Without cluster-enabled the commands of a cluster reply with an error.
func TestNoCluster(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	for _, command := range []string{"CLUSTER INFO", "CLUSTER SLOTS", "CLUSTERX VERSION", "CLUSTER MEET a 1",
		"CLUSTERX SETNODES a 1", "CLUSTERX FLUSHSLOTS 1", "CLUSTER KEYSLOT a"} {
		c.Want(command, "-ERR This instance has cluster support disabled\r\n")
	}
	c.Want("READONLY", "+OK\r\n")
	if help := c.Do("CLUSTER", "HELP"); !strings.Contains(help, "COUNTKEYSINSLOT") {
		t.Errorf("%q", help)
	}
}

// Each command of a pipeline is routed by itself, and ASKING applies to the next command only.
func TestRoutingInPipelines(t *testing.T) {
	n := startNode(t)
	moved := movedTo(others, otherAddr)
	for commands, want := range map[string]string{
		"SET a{M} 1;SET a{O} 1;GET a{M};GET a{O};SET b{M} 2;MSET a{M} 1 a{N} 2": "+OK\r\n" + moved + "$1\r\n1\r\n" + moved +
			"+OK\r\n" +
			"-CROSSSLOT Attempted to access keys that don't hash to the same slot\r\n",
		"GET x{O};GET x{M};GET x{M};GET x{O}":                    moved + "$-1\r\n$-1\r\n" + moved,
		"READONLY;GET x{O};SET y{M} 1;ASKING;GET x{O};READWRITE": "+OK\r\n" + moved + "+OK\r\n+OK\r\n" + moved + "+OK\r\n",
	} {
		n.Send(servertest.Pipeline(strings.Split(fill(commands), ";")...))
		var got strings.Builder
		for range strings.Split(commands, ";") {
			got.WriteString(n.Reply())
		}
		if got.String() != want {
			t.Errorf("%s:\n%q, want\n%q", commands, got.String(), want)
		}
	}
}

// A transaction may have keys of several slots of this server, as in Kvrocks. If a queued command has a key of another
// server's slot, EXEC runs nothing. If the topology changes before EXEC, EXEC runs nothing and is redirected.
func TestRoutingOfTransactions(t *testing.T) {
	n := startNode(t)
	replies := func(commands, want string) {
		t.Helper()
		for i, command := range strings.Split(fill(commands), ";") {
			n.Want(command, strings.Split(want, ";")[i])
		}
	}
	replies("MULTI;SET a{M} 1;SET a{N} 1;EXEC", "+OK\r\n;+QUEUED\r\n;+QUEUED\r\n;*2\r\n+OK\r\n+OK\r\n")
	replies("MULTI;SET a{M} 2;SET a{O} 2;EXEC;GET a{M}", "+OK\r\n;+QUEUED\r\n;"+movedTo(others, otherAddr)+
		";-EXECABORT Transaction discarded because of previous errors.\r\n;$1\r\n1\r\n")
	replies("MULTI;SET a{M} 2;SET a{N} 2", "+OK\r\n;+QUEUED\r\n;+QUEUED\r\n")
	admin := clusterNode{n.Harness, n.Harness.Dial(t), n.version}
	admin.setNodes(fmt.Sprint(cf.Slot([]byte(mine))), "8192-16382 "+fmt.Sprint(cf.Slot([]byte(mine2))))
	replies("EXEC;GET a{M};EXEC", movedTo(mine2, otherAddr)+";$1\r\n1\r\n;-ERR EXEC without MULTI\r\n")

	// The other node may change a watched key whose slot has left.
	replies("WATCH b{M};MULTI;PING", "+OK\r\n;+OK\r\n;+QUEUED\r\n")
	admin.setNodes(fmt.Sprint(cf.Slot([]byte(mine2))), "8192-16382 "+fmt.Sprint(cf.Slot([]byte(mine))))
	replies("EXEC;WATCH b{N};MULTI;PING;EXEC", "*-1\r\n;+OK\r\n;+OK\r\n;+QUEUED\r\n;*1\r\n+PONG\r\n")
}

// Scripts are routed by their declared keys, and each command that a script calls by its own keys.
func TestRoutingOfScripts(t *testing.T) {
	n := startNode(t)
	n.Want(fill("SET a{M} 1"), "+OK\r\n")
	const notLocal = "ERR Script attempted to access a non local key in a cluster node script"
	const cross = "ERR Script attempted to access keys that do not hash to the same slot"
	load := func(flags string) {
		t.Helper()
		got := n.Do("FUNCTION", "LOAD", "REPLACE", "#!lua name=l\nredis.register_function{function_name='f', flags={"+flags+
			"}, callback=function(keys, args) return redis.call('get', args[1]) end}")
		if !strings.HasPrefix(got, "$1") {
			t.Fatal(got)
		}
	}
	eval := func(script string, args ...string) string {
		return n.Do(append([]string{"EVAL", fill(script)}, args...)...)
	}
	for _, x := range []struct{ script, want string }{
		{"return redis.call('get', 'a{M}')", "$1\r\n1\r\n"},
		{"return redis.call('get', 'a{O}')", notLocal},
		{"return redis.call('get', 'a{Z}')", "ERR Script attempted to execute a command while the cluster is down"},
		{"return redis.call('mget', 'a{M}', 'a{N}')", "CROSSSLOT"},
		{"redis.call('get', 'a{M}') return redis.call('get', 'a{N}')", "$-1\r\n"}, // the script declares no flags
		{"#!lua\nredis.call('get', 'a{M}') return redis.call('get', 'a{N}')", cross},
		{"#!lua flags=allow-cross-slot-keys\nredis.call('get', 'a{M}') return redis.call('get', 'a{N}')", "$-1\r\n"},
		{"#!lua flags=allow-cross-slot-keys\nreturn redis.call('get', 'a{O}')", notLocal},
		{"#!lua flags=no-cluster\nreturn 1", "Can not run script on cluster, 'no-cluster' flag is set"},
	} {
		if got := eval(x.script, "0"); !strings.Contains(got, x.want) {
			t.Errorf("%s: %q, want %q", x.script, got, x.want)
		}
	}
	if got := eval("#!lua\nreturn redis.call('get', 'a{N}')", "1", fill("a{M}")); !strings.Contains(got, cross) {
		t.Errorf("a key beside the declared one: %q", got)
	}
	load("'no-writes'")
	n.Want(fill("FCALL f 1 a{M} a{M}"), "$1\r\n1\r\n")
	n.Want(fill("FCALL f 1 a{O} a{M}"), movedTo(others, otherAddr))
	if got := n.Do("FCALL", "f", "1", fill("a{M}"), fill("a{N}")); !strings.Contains(got, cross) {
		t.Errorf("%q", got)
	}
	load("'no-cluster'")
	if got := n.Do("FCALL", "f", "0", fill("a{M}")); !strings.Contains(got, "'no-cluster' flag is set") {
		t.Errorf("%q", got)
	}
}

// TestScriptEndsBeforeItsSlotLeaves: a script that has begun before the writes of its slot are refused writes its
// undeclared keys too. It was refused in the middle, after a part of its writes.
func TestScriptEndsBeforeItsSlotLeaves(t *testing.T) {
	n := startNode(t)
	n.Want("CONFIG SET lua-time-limit 0", "+OK\r\n")
	c, subscriber := n.Harness.Dial(t), n.Harness.Dial(t)
	tx := n.DB.NewTx()
	defer tx.End()
	tx.Begin(cf.DefaultNamespace)
	name := func(key string) uint64 { return tx.LockIn(cf.DefaultNamespace, []byte(key), true).Name() }
	declared := fill("a{M}")
	other := fill("b{M}") // its lock is taken after that of the declared key by those who wait for all locks
	for i := 0; name(other)>>40 <= name(declared)>>40; i++ {
		other = fmt.Sprint(fill("b{M}"), i)
	}
	c.Send(servertest.Encode("EVAL", "redis.call('INCR', KEYS[1]) "+
		"repeat until redis.call('PUBSUB', 'NUMSUB', 'go')[2] > 0 return redis.call('INCR', ARGV[1])", "1", declared, other))
	servertest.Eventually(t, "the script has its lock", func() bool {
		tx.AddLock([]byte(declared), true)
		free := tx.TryAcquire()
		tx.Unlock()
		return !free
	})
	m, slot := n.Harness.Cluster(), cf.Slot([]byte(declared))
	done := make(chan error, 1)
	go func() { done <- m.Forbid(cf.SlotRange{First: slot, Last: slot}) }()
	servertest.Eventually(t, "writes are refused", func() bool {
		return m.Topology().Route(slot, topology.Access{Write: true}) != nil
	})
	subscriber.Send(servertest.Encode("SUBSCRIBE", "go"))
	c.Expect(":1\r\n")
	require.NoError(t, <-done)
	n.Want("GET "+declared, "$1\r\n1\r\n")
	n.Want("GET "+other, "$1\r\n1\r\n")
}

// When another node gets a slot, clients that wait for keys of the slot are redirected; other clients keep waiting.
func TestRoutingOfBlockedClients(t *testing.T) {
	n := startNode(t)
	leaving, staying := n.Harness.Dial(t), n.Harness.Dial(t)
	leaving.Send(servertest.Pipeline(fill("BLPOP l{N} k{N} 0")))
	staying.Send(servertest.Pipeline(fill("BLPOP l{M} 0")))
	n.BlockedClients(t, 2)
	n.setNodes(fmt.Sprint(cf.Slot([]byte(mine))), "8192-16382 "+fmt.Sprint(cf.Slot([]byte(mine2))))
	leaving.Expect(movedTo(mine2, otherAddr))
	n.BlockedClients(t, 1)
	n.Want(fill("RPUSH l{M} e"), ":1\r\n")
	staying.Expect(fmt.Sprintf("*2\r\n$%d\r\nl{%s}\r\n$1\r\ne\r\n", len(mine)+3, mine))
}

// A write that was held by a pause while its node became a replica is redirected to the new master.
func TestRoutingAfterPause(t *testing.T) {
	n := startNode(t)
	held := n.Harness.Dial(t)
	n.Want("CLIENT PAUSE 1000000 WRITE", "+OK\r\n")
	held.Send(servertest.Pipeline(fill("SET k{M} v")))
	n.PausedClients(t, 1)
	_, port, _ := strings.Cut(n.Addr(), ":")
	text := fmt.Sprintf("%s 127.0.0.1 %s slave %s\n%s 127.0.0.1 1 master - 0-16382", selfID, port, otherID, otherID)
	if got := n.Do("CLUSTERX", "SETNODES", text, "9"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	n.Want("CLIENT UNPAUSE", "+OK\r\n")
	if got := held.Reply(); got != movedTo(mine, "127.0.0.1:1") {
		t.Errorf("%q", got)
	}
}

// A client that waits takes nothing from a slot that is closed for writes: the destination has it already.
func TestBlockedClientsDuringForbiddenWrites(t *testing.T) {
	n := startNode(t)
	waiting, key := n.Harness.Dial(t), []byte(fill("l{M}"))
	waiting.Send(servertest.Pipeline(fill("BLPOP l{M} 0")))
	n.BlockedClients(t, 1)
	require.NoError(t, n.DB.Update(cf.DefaultNamespace, [][]byte{key}, func(tx *engine.Tx) error {
		_, err := list.Push(tx, key, [][]byte{[]byte("e")}, true, false)
		return err
	}))
	slot := cf.SlotRange{First: cf.Slot(key), Last: cf.Slot(key)}
	require.NoError(t, n.Harness.Cluster().Forbid(slot))
	n.Sessions().KeysCame()
	if got := waiting.Reply(); !strings.HasPrefix(got, "-TRYAGAIN ") {
		t.Errorf("%q", got)
	}
	n.Harness.Cluster().Allow(slot)
	n.Want(fill("LLEN l{M}"), ":1\r\n")
}

// One command can unsubscribe from channels of several slots.
func TestUnsubscribeFromSeveralSlots(t *testing.T) {
	n := startNode(t)
	n.Send(servertest.Pipeline(fill("SUNSUBSCRIBE c{M} c{O}")))
	for range 2 {
		if got := n.Reply(); !strings.HasPrefix(got, "*3\r\n$12\r\nsunsubscribe") {
			t.Errorf("%q", got)
		}
	}
}

// When the end of a migration makes another node serve a slot, clients that track keys forget them, although the keys
// stay here until the controller gives the slot away: from now on they change on the other node.
func TestTrackingOfMigratedSlots(t *testing.T) {
	n := startNode(t)
	slot := cf.Slot([]byte(mine))
	all := ">2\r\n$10\r\ninvalidate\r\n_\r\n"
	tracks, broadcast := n.Harness.Dial3(t), n.Harness.Dial3(t)
	tracks.Want("CLIENT TRACKING ON", "+OK\r\n")
	tracks.Want(fill("GET k{M}"), "_\r\n")
	broadcast.Want("CLIENT TRACKING ON BCAST", "+OK\r\n")
	m := n.Harness.Cluster()
	r := cf.SlotRange{First: slot, Last: slot}
	if err := m.Forbid(r); err != nil { // reads go on
		t.Fatal(err)
	}
	tracks.Quiet()
	require.NoError(t, m.Migrated(r, m.Topology().Node(otherID), nil))
	tracks.Expect(all)
	broadcast.Expect(all)
	tracks.Want(fill("GET k{M}"), movedTo(mine, otherAddr))
}

// When another node gets a slot, the subscriptions to its shard channels end, and the clients get a sunsubscribe
// message.
func TestRoutingOfShardChannels(t *testing.T) {
	n := startNode(t)
	for _, c := range []*servertest.Client{n.Harness.Dial(t), n.Harness.Dial3(t)} {
		push := "*"
		if c.Do("HELLO")[0] == '%' {
			push = ">"
		}
		confirm := func(kind, tag string, count int) string {
			return fmt.Sprintf("%s3\r\n$%d\r\n%s\r\n$%d\r\nc{%s}\r\n:%d\r\n", push, len(kind), kind, len(tag)+3, tag, count)
		}
		n.setNodes("0-8191", "8192-16382")
		c.Want(fill("SSUBSCRIBE c{M}"), confirm("ssubscribe", mine, 1))
		c.Want(fill("SSUBSCRIBE c{N}"), confirm("ssubscribe", mine2, 2))
		n.setNodes(fmt.Sprint(cf.Slot([]byte(mine))), "8192-16382 "+fmt.Sprint(cf.Slot([]byte(mine2))))
		c.Expect(confirm("sunsubscribe", mine2, 1))
		n.Want(fill("SPUBLISH c{M} m"), ":1\r\n")
		c.Expect(fmt.Sprintf("%s3\r\n$8\r\nsmessage\r\n$%d\r\nc{%s}\r\n$1\r\nm\r\n", push, len(mine)+3, mine))
		n.setNodes("9000", "8192-8999")
		c.Expect(confirm("sunsubscribe", mine, 0))
		c.Want("PING", "+PONG\r\n") // the client is no longer a subscriber
		n.setNodes("0-8191", "8192-16382")
		c.Want(fill("SSUBSCRIBE c{N}"), confirm("ssubscribe", mine2, 1))
		c.Want(fill("SUNSUBSCRIBE c{N}"), confirm("sunsubscribe", mine2, 0))
	}
}

// When Forbid has returned, no write to the slot is under way, and none follows: the counter has counted all INCRs that
// succeeded, and does not change any more.
func TestForbiddenWrites(t *testing.T) {
	n := startNode(t)
	m := n.Harness.Cluster()
	r := cf.SlotRange{First: cf.Slot([]byte(mine)), Last: cf.Slot([]byte(mine))}
	var writers sync.WaitGroup
	written := make([]int, 4)
	errs := make([]string, len(written))
	for i := range written {
		c := n.Harness.Dial(t)
		command := servertest.Pipeline(fill("INCR a{M}"), fill("GET b{N}"))
		if i%2 == 1 {
			command = servertest.Pipeline("MULTI", fill("INCR a{M}"), fill("INCR b{N}"), "EXEC")
		}
		writers.Go(func() {
			for {
				c.Send(command)
				var got strings.Builder
				for range strings.Count(command, "*") {
					got.WriteString(c.Reply())
				}
				if strings.Contains(got.String(), "TRYAGAIN") {
					errs[i] = got.String()
					return
				}
				written[i]++
			}
		})
	}
	servertest.Eventually(t, "100 writes", func() bool { return n.Do("GET", fill("a{M}")) > "$3" }) // a number of 3 digits
	require.NoError(t, m.Forbid(r))
	value := n.Do("GET", fill("a{M}"))
	writers.Wait()
	sum := 0
	for i, count := range written {
		sum += count
		if !strings.Contains(errs[i], "TRYAGAIN") {
			t.Errorf("%q", errs[i])
		}
	}
	if want := fmt.Sprintf("$%d\r\n%d\r\n", len(fmt.Sprint(sum)), sum); value != want ||
		n.Do("GET", fill("a{M}")) != want {
		t.Errorf("%q when the slot was closed, want %q", value, want)
	}
	if got := n.Do("EVAL", "return redis.call('set', KEYS[1], 1)", "1", fill("a{M}")); !strings.HasPrefix(got,
		"-TRYAGAIN") {
		t.Error(got)
	}
	if got := n.Do("EVAL_RO", "return redis.call('get', KEYS[1])", "1", fill("a{M}")); got != value {
		t.Error(got)
	}
	m.Allow(r)
	n.Want(fill("SET a{M} 1"), "+OK\r\n")
}

// During the import of a slot, the destination serves clients that have sent ASKING; after the import it serves all
// clients.
func TestAsking(t *testing.T) {
	n := startNode(t)
	m := n.Harness.Cluster()
	r := cf.SlotRange{First: cf.Slot([]byte(others)), Last: cf.Slot([]byte(others))}
	moved := movedTo(others, otherAddr)
	m.Importing(r)
	for i, x := range []string{"SET a{O} 1", moved, "ASKING", "+OK\r\n", "SET a{O} 1", "+OK\r\n", "GET a{O}", moved,
		"ASKING", "+OK\r\n", "MULTI", "+OK\r\n", "SET a{O} 2", "+QUEUED\r\n", "GET a{O}", "+QUEUED\r\n", "EXEC",
		"*2\r\n+OK\r\n$1\r\n2\r\n", "GET a{O}", moved, "ASKING", "+OK\r\n", "EVAL return(redis.call('get','a{O}')) 0",
		"$1\r\n2\r\n"} {
		if i%2 == 0 {
			n.Send(servertest.Pipeline(fill(x)))
		} else if got := n.Reply(); got != x {
			t.Errorf("step %d: %q, want %q", i/2, got, x)
		}
	}
	require.NoError(t, m.Imported(r))
	n.Want(fill("GET a{O}"), "$1\r\n2\r\n")
}

// RDB LOAD loads the keys of the slots that this server serves, and stops at a key of a slot that is closed for writes.
func TestRDBLoadInCluster(t *testing.T) {
	n := startNode(t)
	path := rdbFile(t, "\xfe\x00", rdbKey(fill("a{O}"), "1"), rdbKey(fill("a{M}"), "1"), rdbKey(fill("a{Z}"), "1"))
	n.Want("RDB LOAD "+path, "+OK\r\n")
	n.Want("DBSIZE", ":1\r\n")
	if n.Logs.FilterMessageSnippet("1 keys and 0 libraries were loaded").
		FilterMessageSnippet("2 belong to other nodes of the cluster").Len() != 1 {
		t.Error("the log does not say how many keys were loaded, and how many belong to other nodes")
	}
	slot := cf.Slot([]byte(mine))
	require.NoError(t, n.Harness.Cluster().Forbid(cf.SlotRange{First: slot, Last: slot}))
	if got := n.Do("RDB", "LOAD", path); !strings.HasPrefix(got, "-TRYAGAIN") {
		t.Error(got)
	}
}

// manyNodes returns a topology of 1,000 nodes, half of them replicas. The ids of the replicas depend on shift.
func manyNodes(port string, shift int) string {
	var b strings.Builder
	for i := range 500 {
		host, p := fmt.Sprintf("10.0.%d.%d", i/250, i%250), "6666"
		id := fmt.Sprintf("%040x", i+1)
		if i == 0 {
			host, p, id = "127.0.0.1", port, selfID
		}
		first, last := i*cf.NumSlots/500, (i+1)*cf.NumSlots/500-1
		if i == 0 {
			first, last = 0, 8191
		} else if first = max(first, 8192); last < first {
			first, last = -1, -1
		}
		fmt.Fprintf(&b, "%s %s %s master -", id, host, p)
		if first >= 0 && first != last {
			fmt.Fprintf(&b, " %d-%d", first, last)
		}
		fmt.Fprintf(&b, "\n%040x 10.1.%d.%d 6666 slave %s\n", i+10001+shift, i/250, i%250, id)
	}
	return b.String()
}

// BenchmarkTopologyChanges measures a pipeline of a SET and a GET, without changes of the topology and while a topology
// of 1,000 nodes changes 100 times a second. p99-us is the 99th percentile of the time of the pipeline.
func BenchmarkTopologyChanges(b *testing.B) {
	for _, every := range []time.Duration{0, 10 * time.Millisecond} {
		b.Run(fmt.Sprint("every", every), func(b *testing.B) {
			h := servertest.Start(b, "cluster-enabled", "yes")
			c, admin := h.Dial(b), h.Dial(b)
			_, port, _ := strings.Cut(h.Addr(), ":")
			admin.Do("CLUSTERX", "SETNODEID", selfID)
			admin.Do("CLUSTERX", "SETNODES", manyNodes(port, 0), "1")
			stop, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				if every == 0 {
					return
				}
				tick := time.NewTicker(every)
				defer tick.Stop()
				for version := 2; ; version++ {
					select {
					case <-stop:
						return
					case <-tick.C:
						admin.Do("CLUSTERX", "SETNODES", manyNodes(port, version%2), fmt.Sprint(version))
					}
				}
			}()
			commands := servertest.Pipeline(fill("SET a{M} 1"), fill("GET a{M}"))
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				require.NoError(b, c.RoundTrip(commands, 2))
				took = append(took, time.Since(began))
			}
			close(stop)
			<-ended
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
		})
	}
}

// BenchmarkRouting measures the cost of routing a command: the CPU time of SET and GET of random keys out of 100,000 in
// a node of a cluster, without and with routing, in short blocks that alternate. The keys, the database and the server
// are the same; the kernel's time to receive commands is not included. cpu-ns is the median time of a command without
// routing. routing-ns is the median difference between a block with routing and the mean of its two neighbours.
func BenchmarkRouting(b *testing.B) {
	const keys, texts = 100_000, 1 << 14
	const commands = 1 << 10 // in a block
	h := servertest.Start(b, "cluster-enabled", "yes")
	admin := h.Dial(b)
	_, port, _ := strings.Cut(h.Addr(), ":")
	admin.Want("CLUSTERX SETNODEID "+selfID, "+OK\r\n")
	if got := admin.Do("CLUSTERX", "SETNODES", selfID+" 127.0.0.1 "+port+" master - 0-16383", "1"); got != "+OK\r\n" {
		b.Fatal(got)
	}
	shared := h.Sessions()
	routed := shared.Cluster
	c := loopTo(b, shared)
	encode := map[string]func(key int) string{
		"SET": func(key int) string {
			return servertest.Encode("SET", fmt.Sprintf("key:%012d", key), strings.Repeat("v", 100))
		},
		"GET": func(key int) string { return servertest.Encode("GET", fmt.Sprintf("key:%012d", key)) },
	}
	for key := range keys {
		c.Feed(encode["SET"](key))
	}
	for _, kind := range []string{"SET", "GET"} {
		for _, pipeline := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/pipeline=%d", kind, pipeline), func(b *testing.B) {
				rnd := rand.New(rand.NewPCG(1, 2))
				input := make([]string, texts)
				for i := range input {
					for range pipeline {
						input[i] += encode[kind](rnd.IntN(keys))
					}
				}
				next := 0
				block := func(m *cluster.Map) float64 {
					shared.Cluster = m
					began := enginetest.ProcessCPU()
					for range commands / pipeline {
						c.Feed(input[next%texts])
						next++
					}
					return float64(enginetest.ProcessCPU()-began) / commands
				}
				var base, more []float64
				for b.Loop() {
					first, second, third := block(nil), block(routed), block(nil)
					base, more = append(base, first, third), append(more, second-(first+third)/2)
				}
				shared.Cluster = routed
				slices.Sort(base)
				slices.Sort(more)
				cost, difference := base[len(base)/2], more[len(more)/2]
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(cost, "cpu-ns")
				b.ReportMetric(difference, "routing-ns")
				b.ReportMetric(100*difference/cost, "routing-%")
			})
		}
	}
}
