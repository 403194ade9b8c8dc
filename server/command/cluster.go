package command

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/server/resp"
)

// CLUSTER shows the topology as Redis does, and CLUSTERX, a command of Kvrocks, changes it. READONLY, READWRITE and
// ASKING are answered outside of a cluster too, as by Kvrocks.

// clusterChangeFlags are the flags of the subcommands that change the topology. They wait for the locks of other
// clients, so they cannot be part of a transaction.
const clusterChangeFlags = Admin | NoScript | NoMulti | Loading | Stale | Solo | AdminOnly

var clusterCommands = []Spec{
	{Name: "cluster", Arity: -2, Sub: append([]Spec{
		{Name: "count-failure-reports", Handler: withShards(clusterFailureReports), Arity: 3, Flags: Admin | Stale},
		{Name: "countkeysinslot", Handler: inCluster(clusterCountKeys), Arity: 3, Flags: Stale | Solo},
		{Name: "getkeysinslot", Handler: inCluster(clusterGetKeys), Arity: 4, Flags: Stale | Solo},
		{Name: "help", Handler: help, Arity: 2, Flags: Loading | Stale},
		{Name: "import", Handler: inCluster(clusterImport), Arity: 4, Flags: clusterChangeFlags},
		{Name: "info", Handler: inCluster(clusterInfo), Arity: 2, Flags: Stale},
		{Name: "keyslot", Handler: inCluster(clusterKeySlot), Arity: 3, Flags: Stale},
		{Name: "links", Handler: inCluster(clusterLinks), Arity: 2, Flags: Stale},
		{Name: "myid", Handler: inCluster(clusterMyID), Arity: 2, Flags: Stale},
		{Name: "myshardid", Handler: withShards(clusterMyShardID), Arity: 2, Flags: Stale},
		{Name: "nodes", Handler: inCluster(clusterNodes), Arity: 2, Flags: Stale},
		{Name: "replicas", Handler: inCluster(clusterReplicas), Arity: 3, Flags: Admin | Stale},
		{Name: "reset", Handler: inCluster(clusterReset), Arity: -2, Flags: clusterChangeFlags &^ Loading},
		{Name: "shards", Handler: withShards(clusterShards), Arity: 2, Flags: Stale},
		{Name: "slaves", Handler: inCluster(clusterReplicas), Arity: 3, Flags: Admin | Stale},
		{Name: "slots", Handler: withShards(clusterSlots), Arity: 2, Flags: Stale},
	}, clusterGossip()...)},
	{Name: "clusterx", Arity: -2, Sub: []Spec{
		{Name: "flushslots", Handler: inCluster(clusterXFlushSlots), Arity: -3, Flags: clusterChangeFlags | Write},
		{Name: "migrate", Handler: inCluster(clusterXMigrate), Arity: -4, Flags: clusterChangeFlags},
		{Name: "myid", Handler: inCluster(clusterMyID), Arity: 2, Flags: Stale},
		{Name: "relay", Handler: inCluster(clusterXRelay), Arity: 2, Flags: clusterChangeFlags},
		{Name: "setnodeid", Handler: inCluster(clusterXSetNodeID), Arity: 3, Flags: clusterChangeFlags},
		{Name: "setnodes", Handler: inCluster(clusterXSetNodes), Arity: -4, Flags: clusterChangeFlags},
		{Name: "setslot", Handler: inCluster(clusterXSetSlot), Arity: 6, Flags: clusterChangeFlags},
		{Name: "version", Handler: inCluster(clusterXVersion), Arity: 2, Flags: Stale},
	}},
	{Name: "_ingest", Handler: ingest, Arity: -2,
		Flags: Write | DenyOOM | Admin | NoScript | NoMulti | Solo | AdminOnly},
	{Name: "readonly", Handler: readOnly, Arity: 1, Flags: Loading | Stale | Fast | Solo},
	{Name: "readwrite", Handler: readWrite, Arity: 1, Flags: Loading | Stale | Fast | Solo},
	{Name: "asking", Handler: asking, Arity: 1, Flags: Fast | Solo},
}

// clusterGossip are the subcommands of Redis Cluster that introduce nodes to each other for gossip.
func clusterGossip() []Spec {
	const flags = Admin | NoAsyncLoading | Stale | Solo | AdminOnly
	row := func(name string, arity int) Spec {
		return Spec{Name: name, Handler: inCluster(clusterRefused), Arity: arity, Flags: flags}
	}
	return []Spec{
		row("addslots", -3), row("addslotsrange", -4), row("bumpepoch", 2), row("delslots", -3), row("delslotsrange", -4),
		row("failover", -2), row("flushslots", 2), row("forget", 3), row("meet", -4), row("replicate", 3),
		row("saveconfig", 2), row("set-config-epoch", 3), row("setslot", -4),
	}
}

var errClusterVersion = engine.NewError("ERR", "Invalid version")

// inCluster makes the handler of a subcommand that needs the topology. Without cluster mode its reply is an error.
func inCluster(f func(c *Ctx, t Cluster) error) Handler {
	return func(c *Ctx) error {
		if c.Srv.Cluster == nil {
			return errorf("This instance has cluster support disabled")
		}
		return f(c, c.Srv.Cluster)
	}
}

// withShards makes the handler of a subcommand that needs the shards, and the ID of this node.
func withShards(f func(c *Ctx, own string, shards []Shard) error) Handler {
	return inCluster(func(c *Ctx, t Cluster) error {
		shards, err := t.Shards()
		if err != nil {
			return err
		}
		return f(c, t.ID(), shards)
	})
}

func readOnly(c *Ctx) error {
	c.Sess.ReadOnly = true
	return replyOK(c, nil)
}

func readWrite(c *Ctx) error {
	c.Sess.ReadOnly = false
	return replyOK(c, nil)
}

func asking(c *Ctx) error {
	c.Sess.Asking = true
	return replyOK(c, nil)
}

func clusterRefused(c *Ctx, _ Cluster) error {
	return errorf("CLUSTER %s is not supported: there is no gossip, a controller sets the "+
		"topology by CLUSTERX SETNODES and CLUSTERX SETSLOT", strings.ToUpper(c.Spec.Name))
}

func clusterInfo(c *Ctx, t Cluster) error {
	text, err := t.Info()
	return replyVerbatim(c, text, err)
}

func clusterNodes(c *Ctx, t Cluster) error {
	text, err := t.Nodes()
	return replyVerbatim(c, text, err)
}

func clusterReplicas(c *Ctx, t Cluster) error {
	text, err := t.Replicas(string(c.Args[2]))
	return replyVerbatim(c, text, err)
}

func clusterKeySlot(c *Ctx, _ Cluster) error {
	return replyInt(c, int(cf.Slot(c.Args[2])), nil)
}

func clusterMyID(c *Ctx, t Cluster) error {
	return replyString(c, t.ID(), nil)
}

func clusterMyShardID(c *Ctx, own string, shards []Shard) error {
	for _, s := range shards {
		for _, n := range s.Nodes {
			if n.ID == own {
				return replyString(c, s.Nodes[0].ID, nil)
			}
		}
	}
	return engine.NewError("ERR", "this node is not in the cluster")
}

// clusterSlots is CLUSTER SLOTS. Nodes have three fields, as in Redis before 7.0 and in Kvrocks.
func clusterSlots(c *Ctx, _ string, shards []Shard) error {
	type entry struct {
		cf.SlotRange
		nodes []ShardNode
	}
	var entries []entry
	for _, s := range shards {
		alive := slices.DeleteFunc(slices.Clone(s.Nodes), func(n ShardNode) bool { return n.Failed })
		for _, r := range s.Slots {
			entries = append(entries, entry{r, alive})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.First, b.First) })
	c.Out.Array(len(entries))
	for _, e := range entries {
		c.Out.Array(2 + len(e.nodes))
		c.Out.Int(int64(e.First))
		c.Out.Int(int64(e.Last))
		for _, n := range e.nodes {
			c.Out.Array(3)
			c.Out.BulkString(n.Host)
			c.Out.Int(int64(n.Port))
			c.Out.BulkString(n.ID)
		}
	}
	return nil
}

func clusterShards(c *Ctx, own string, shards []Shard) error {
	c.Out.Array(len(shards))
	for _, s := range shards {
		c.Out.Map(2)
		c.Out.BulkString("slots")
		c.Out.Array(2 * len(s.Slots))
		for _, r := range s.Slots {
			c.Out.Int(int64(r.First))
			c.Out.Int(int64(r.Last))
		}
		c.Out.BulkString("nodes")
		c.Out.Array(len(s.Nodes))
		for _, n := range s.Nodes {
			offset := int64(0) // the offsets of other nodes are unknown
			if n.ID == own {
				offset = int64(c.Srv.DB.LatestSequence())
			}
			writeShardNode(c.Out, n, offset)
		}
	}
	return nil
}

func writeShardNode(out *resp.Writer, n ShardNode, offset int64) {
	role, health := "master", "online"
	if n.Replica {
		role = "replica"
	}
	if n.Failed {
		health = "fail"
	}
	out.Map(7)
	stringField(out, "id", n.ID)
	intField(out, "port", n.Port)
	stringField(out, "ip", n.Host)
	stringField(out, "endpoint", n.Host)
	stringField(out, "role", role)
	intField(out, "replication-offset", offset)
	stringField(out, "health", health)
}

func clusterLinks(c *Ctx, _ Cluster) error {
	c.Out.Array(0)
	return nil
}

func clusterFailureReports(c *Ctx, _ string, shards []Shard) error {
	for _, s := range shards {
		for _, n := range s.Nodes {
			if n.ID == string(c.Args[2]) {
				c.Out.Int(0)
				return nil
			}
		}
	}
	return errorf("Unknown node %s", echoed(c.Args[2]))
}

// slotArg reads the slot of COUNTKEYSINSLOT and GETKEYSINSLOT.
func slotArg(c *Ctx) (uint16, error) {
	n, ok := ParseInt(c.Args[2])
	if !ok || n < 0 || n >= cf.NumSlots {
		return 0, errorf("Invalid or out of range slot")
	}
	return uint16(n), nil
}

func walkSlot(c *Ctx, slot uint16, limit int, visit func(key []byte) bool) error {
	from := binary.BigEndian.AppendUint16(nil, slot)
	to := binary.BigEndian.AppendUint16(nil, slot+1)
	return keys.Walk(c.Tx, keys.Range{From: from, To: to, Limit: limit}, func(e *keys.Entry) bool {
		return !e.Live || visit(e.Key)
	})
}

func clusterCountKeys(c *Ctx, _ Cluster) error {
	slot, err := slotArg(c)
	if err != nil {
		return err
	}
	n := int64(0)
	err = walkSlot(c, slot, 0, func([]byte) bool { n++; return true })
	return replyInt(c, n, err)
}

func clusterGetKeys(c *Ctx, _ Cluster) error {
	slot, err := slotArg(c)
	if err != nil {
		return err
	}
	most, ok := ParseInt(c.Args[3])
	if !ok || most < 0 {
		return errorf("Invalid number of keys")
	}
	var found [][]byte
	if most > 0 {
		err = walkSlot(c, slot, int(min(most, 1000)), func(key []byte) bool {
			found = append(found, bytes.Clone(key))
			return int64(len(found)) < most
		})
	}
	if err != nil {
		return err
	}
	c.Out.Array(len(found))
	for _, k := range found {
		c.Out.Bulk(k)
	}
	return nil
}

func clusterReset(c *Ctx, t Cluster) error {
	if len(c.Args) > 3 || len(c.Args) == 3 && !EqualFold(c.Args[2], "HARD") && !EqualFold(c.Args[2], "SOFT") {
		return ErrSyntax
	}
	return replyOK(c, t.Reset())
}

// clusterImport is CLUSTER IMPORT slots state.
func clusterImport(c *Ctx, t Cluster) error {
	r, err := oneRange(c.Args[2])
	if err != nil {
		return err
	}
	state, ok := ParseInt(c.Args[3])
	if !ok || state < int64(ImportStart) || state > int64(ImportNone) && state != int64(ImportVerify) &&
		state != int64(ImportConfirm) {
		return errorf("Invalid import state")
	}
	return replyOK(c, t.Import(c.Sess, r, ImportState(state)))
}

// ingest is _ingest BEGIN, _ingest RECORDS batch and _ingest END, by which a basalt sends another one slots, and basalt
// import keys.
func ingest(c *Ctx) error {
	to := c.Srv.Ingester
	switch {
	case len(c.Args) == 2 && EqualFold(c.Args[1], "BEGIN"):
		return replyOK(c, to.Ingest(c.Sess, IngestBegin, nil))
	case len(c.Args) == 3 && EqualFold(c.Args[1], "RECORDS"):
		return replyOK(c, to.Ingest(c.Sess, IngestRecords, c.Args[2]))
	case len(c.Args) == 2 && EqualFold(c.Args[1], "END"):
		return replyOK(c, to.Ingest(c.Sess, IngestEnd, nil))
	}
	return ErrSyntax
}

func clusterXVersion(c *Ctx, t Cluster) error {
	c.Out.BulkInt(t.Version())
	return nil
}

// clusterXRelay is CLUSTERX RELAY, which another node sends: this node delivers the messages that follow, and passes
// them on no further.
func clusterXRelay(c *Ctx, _ Cluster) error {
	c.Sess.Relayed = true
	return replyOK(c, nil)
}

func clusterXSetNodeID(c *Ctx, t Cluster) error {
	return replyOK(c, t.SetNodeID(string(c.Args[2])))
}

// clusterXSetNodes is CLUSTERX SETNODES nodes version [FORCE].
func clusterXSetNodes(c *Ctx, t Cluster) error {
	version, ok := ParseInt(c.Args[3])
	if !ok {
		return errClusterVersion
	}
	force := len(c.Args) == 5 && EqualFold(c.Args[4], "FORCE")
	if len(c.Args) > 4 && !force {
		return errorf("Invalid setnodes options")
	}
	return replyOK(c, t.SetNodes(c.Args[2], version, force))
}

// clusterXSetSlot is CLUSTERX SETSLOT slots NODE id version.
func clusterXSetSlot(c *Ctx, t Cluster) error {
	ranges, err := parseSlots(c.Args[2])
	switch {
	case err != nil:
		return err
	case !EqualFold(c.Args[3], "NODE"):
		return errorf("Invalid setslot options")
	}
	version, ok := ParseInt(c.Args[5])
	if !ok {
		return ErrNotInteger
	}
	if version < 0 {
		return errClusterVersion
	}
	return replyOK(c, t.SetSlots(ranges, string(c.Args[4]), version))
}

// clusterXFlushSlots is CLUSTERX FLUSHSLOTS slots ..., where each argument may be several ranges.
func clusterXFlushSlots(c *Ctx, t Cluster) error {
	var all []cf.SlotRange
	for _, a := range c.Args[2:] {
		ranges, err := parseSlots(a)
		if err != nil {
			return err
		}
		all = append(all, ranges...)
	}
	if err := t.FlushSlots(all); err != nil {
		return err
	}
	tellOfChange(c)
	return replyOK(c, nil)
}

// clusterXMigrate is CLUSTERX MIGRATE slots node [ASYNC | SYNC [timeout]]. The timeout is in seconds, 0 = none; when
// it is up the reply is null, and the migration continues.
func clusterXMigrate(c *Ctx, t Cluster) error {
	if len(c.Args) > 6 {
		return ErrSyntax
	}
	r, err := oneRange(c.Args[2])
	if err != nil {
		return err
	}
	sync, timeout := false, int64(0)
	if len(c.Args) > 4 {
		sync = EqualFold(c.Args[4], "SYNC")
		if !sync && !EqualFold(c.Args[4], "ASYNC") {
			return errorf("Invalid sync flag")
		}
	}
	if len(c.Args) == 6 {
		var ok bool
		if timeout, ok = ParseInt(c.Args[5]); !sync {
			return errorf("Async migration does not support timeout")
		} else if !ok || timeout > int64(longestWait/time.Second) {
			return errTimeoutInteger
		} else if timeout < 0 {
			return errTimeoutNegative
		}
	}
	if !sync {
		return replyOK(c, t.Migrate(r, string(c.Args[3]), nil))
	}
	ended := make(chan error, 1)
	if err := t.Migrate(r, string(c.Args[3]), func(err error) { ended <- err }); err != nil {
		return err
	}
	var up <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(time.Duration(timeout) * time.Second)
		defer timer.Stop()
		up = timer.C
	}
	select {
	case err := <-ended:
		return replyOK(c, err)
	case <-up:
	case <-c.Sess.Control.Done():
	}
	c.Out.Null()
	return nil
}

// oneRange reads one slot or range.
func oneRange(text []byte) (cf.SlotRange, error) {
	ranges, err := parseSlots(text)
	if err == nil && len(ranges) > 1 {
		err = errorf("Only one slot or range of slots can be migrated or imported at a time")
	}
	if err != nil {
		return cf.SlotRange{}, err
	}
	return ranges[0], nil
}

// parseSlots reads slots and ranges, "0-100 8000": the errors are those of Kvrocks.
func parseSlots(text []byte) ([]cf.SlotRange, error) {
	fail := func(format string, args ...any) ([]cf.SlotRange, error) {
		return nil, errorf(format, args...)
	}
	slot := func(word string) (uint16, bool) {
		n, ok := ParseInt([]byte(word))
		return uint16(n), ok && n >= 0 && n < cf.NumSlots
	}
	if len(text) == 0 {
		return fail("No slots to parse.")
	}
	words := strings.FieldsFunc(string(text), func(r rune) bool { return r == ' ' })
	if len(words) == 0 {
		return fail("Invalid slots: `%s`. No slots to parse. Please use spaces to separate slots.",
			echoed(text))
	}
	var ranges []cf.SlotRange
	for _, w := range words {
		shown := echoed([]byte(w))
		first, last, both := strings.Cut(w, "-")
		if !both {
			n, ok := slot(w)
			if _, number := ParseInt([]byte(w)); !ok && number {
				return fail("Invalid slot id: out of numeric range")
			} else if !ok {
				return fail("Invalid slot id: not started as an integer")
			}
			ranges = append(ranges, cf.SlotRange{First: n, Last: n})
			continue
		}
		switch {
		case first == "", strings.HasSuffix(last, "-"), last == "":
			return fail("Invalid slot range: `%s`. The character '-' can't appear in the first or last position.", shown)
		case strings.Contains(strings.TrimLeft(last, "-"), "-"):
			return fail("Invalid slot range: `%s`. The slot range should be of the form `int1-int2`.", shown)
		}
		a, okA := slot(first)
		b, okB := slot(strings.TrimLeft(last, "-"))
		if !okA || !okB || a > b {
			return fail("Invalid slot range: `%s`. The slot range `int1-int2` needs to satisfy the condition "+
				"(int1 <= int2).", shown)
		}
		ranges = append(ranges, cf.SlotRange{First: a, Last: b})
	}
	return ranges, nil
}
