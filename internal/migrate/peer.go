package migrate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/basaltdb/basalt/internal/transfer"
	"github.com/basaltdb/basalt/server/resp"
)

// Kind is the kind of a server.
type Kind string

// The kinds.
const (
	Redis   Kind = "redis" // or Valkey
	Kvrocks Kind = "kvrocks"
	Basalt  Kind = "basalt"
)

// peer is one of the two servers, or a node of a cluster that is one.
type peer struct {
	ctx     context.Context
	addr    transfer.Address
	kind    Kind
	version string
	valkey  bool // a Redis that is a Valkey
	cluster bool

	mu   sync.Mutex
	link *pipe
}

// connect connects to a server and finds out what it is.
func connect(ctx context.Context, addr transfer.Address) (*peer, error) {
	x := &peer{ctx: ctx, addr: addr, kind: Redis}
	server, err := x.info("server")
	if err != nil {
		return nil, err
	}
	about, err := x.info("cluster")
	if err != nil {
		return nil, err
	}
	x.cluster = about["cluster_enabled"] == "1"
	x.version = server["redis_version"]
	for _, k := range []Kind{Kvrocks, Basalt} {
		if v, ok := server[string(k)+"_version"]; ok {
			x.kind, x.version = k, v
		}
	}
	if v := server["valkey_version"]; v != "" {
		x.version, x.valkey = v, true
	}
	return x, nil
}

// do sends a command, once more over a new connection if the last one has failed. A reply that is an error is one.
func (p *peer) do(args ...string) (r resp.Reply, err error) {
	for range 2 {
		p.mu.Lock()
		if p.link == nil {
			p.link, err = dial(p.ctx, p.addr)
		}
		link := p.link
		p.mu.Unlock()
		if link == nil {
			return r, err
		}
		if r, err = link.do(args...); err == nil || r.Kind != 0 {
			return r, err
		}
		p.mu.Lock()
		if p.link == link {
			p.link = nil
		}
		p.mu.Unlock()
	}
	return r, err
}

func (p *peer) String() string {
	what := string(p.kind)
	if p.valkey {
		what = "valkey"
	}
	if p.cluster {
		what += " cluster"
	}
	return fmt.Sprintf("%s (%s %s)", p.addr, what, p.version)
}

func (p *peer) info(section string) (map[string]string, error) {
	r, err := p.do("INFO", section)
	if err != nil {
		return nil, err
	}
	return resp.ParseInfo(string(r.Text)), nil
}

// offset returns how much the server has written as a master: bytes of its stream, or sequence numbers.
func (p *peer) offset() (int64, error) {
	fields, err := p.info("replication")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(fields["master_repl_offset"], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("INFO has master_repl_offset:%s", fields["master_repl_offset"])
	}
	return n, nil
}

// databases returns the databases that have keys, with about how many.
func (p *peer) databases() (map[int]int64, error) {
	fields, err := p.info("keyspace")
	if err != nil {
		return nil, err
	}
	dbs := map[int]int64{}
	for name, value := range fields {
		digits, ok := strings.CutPrefix(name, "db")
		db, err := strconv.Atoi(digits)
		count, has := strings.CutPrefix(value, "keys=")
		if !ok || !has || err != nil {
			continue
		}
		count, _, _ = strings.Cut(count, ",")
		if n, _ := strconv.ParseInt(count, 10, 64); n > 0 {
			dbs[db] = n
		}
	}
	return dbs, nil
}

// knows reports whether the server has a command.
func (p *peer) knows(command string) bool {
	r, err := p.do("COMMAND", "INFO", command)
	return err == nil && len(r.Elems) == 1 && len(r.Elems[0].Elems) > 0
}

// setting returns a setting of the server, "" when it has no such one.
func (p *peer) setting(name string) (string, error) {
	r, err := p.do("CONFIG", "GET", name)
	if err != nil {
		return "", err
	}
	if len(r.Elems) < 2 {
		return "", nil
	}
	return string(r.Elems[1].Text), nil
}

// sleep waits until a time has passed or the context ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func sortedKeys[V any](m map[int]V) []int { return slices.Sorted(maps.Keys(m)) }

// undoTimeout bounds what must be done although the work is interrupted.
const undoTimeout = 5 * time.Second

// undo sends a command even if the context has ended.
func (p *peer) undo(args ...string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), undoTimeout)
	defer cancel()
	link, err := dial(ctx, p.addr)
	if err == nil {
		_, err = link.do(args...)
	}
	return err
}
