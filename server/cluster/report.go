package cluster

import (
	"strings"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/cluster/topology"
	"github.com/basaltdb/basalt/server/command"
)

var _ command.Cluster = (*Map)(nil)

func (m *Map) Version() int64 { return m.now.Load().Version }
func (m *Map) ID() string     { return m.now.Load().ID }

func (m *Map) MayWrite(key []byte) error {
	return m.now.Load().Route(cf.Slot(key), topology.Access{Write: true})
}

func (m *Map) Nodes() (string, error) {
	t := m.now.Load()
	if t.Version < 0 {
		return "", ErrNotInitialized
	}
	return t.NodesText(m.jobs(), time.Now()), nil
}

func (m *Map) Replicas(id string) (string, error) {
	t := m.now.Load()
	if t.Version < 0 {
		return "", ErrNotInitialized
	}
	master := t.Node(id)
	if master == nil {
		return "", topology.ErrNodeID
	}
	if !master.IsMaster() {
		return "", ErrNotMaster
	}
	var b strings.Builder
	now := time.Now()
	for n := range t.Replicas(master) {
		t.AppendNode(&b, n, false, now)
		b.WriteByte('\n')
	}
	return b.String(), nil
}

func (m *Map) Info() (string, error) {
	t := m.now.Load()
	if t.Version < 0 {
		return "", ErrNotInitialized
	}
	var jobs topology.Jobs
	if t.IsMaster() && !m.opt.IsReplica() {
		jobs = m.jobs()
	}
	return t.InfoText(t.KeptJobs(jobs)), nil
}

func (m *Map) Shards() ([]command.Shard, error) {
	t := m.now.Load()
	if t.Version < 0 {
		return nil, ErrNotInitialized
	}
	return t.Shards(), nil
}
