// Benchimport measures how fast basalt import loads an RDB file into a running server, against redis-cli --pipe with
// the same keys as commands. Each load has a new server; they take turns.
//
//	go run ./scripts/benchimport [-keys 4000000] [-value 100] [-rounds 3] [-type string|hash|zset] [-- --key value ...]
//
// Keys have 16 bytes and come in no order, as in a file of Redis. A hash or a sorted set has four elements, which share
// the length of the value. It prints the seconds of each load, the processor time of client and server, and the median
// of the ratios. Arguments after the flags go to the servers. The machine must be quiet.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/basaltdb/basalt/internal/crc64"
	"github.com/basaltdb/basalt/scripts/internal/launch"
	"github.com/basaltdb/basalt/scripts/internal/loadgen"
	"github.com/basaltdb/basalt/scripts/internal/tool"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/resp"
)

var (
	program = flag.String("basalt", "build/basalt", "the program to measure")
	client  = flag.String("redis-cli", "redis-cli", "the client to compare with; '' measures basalt import alone")
	keys    = flag.Int("keys", 4_000_000, "how many")
	value   = flag.Int("value", 100, "bytes of a value")
	rounds  = flag.Int("rounds", 3, "how often both load")
	memory  = flag.String("memory", "256", "MiB that basalt import may take for sorting")
	kind    = flag.String("type", "string", "string, hash or zset")
)

const elements = 4 // of a collection

func main() {
	flag.Parse()
	tool.Main("benchimport", run)
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "basalt-import-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file, commands := filepath.Join(dir, "dump.rdb"), filepath.Join(dir, "commands")
	if err := writeFiles(file, commands); err != nil {
		return err
	}
	fmt.Printf("%d keys, type %s, values of %d bytes\n", *keys, *kind, *value)
	fmt.Println("          seconds   processor: client   server")
	var ratios []float64
	for round := range *rounds {
		var took [2]time.Duration
		for i := range took {
			if i ^= round & 1; i == 0 && *client == "" {
				continue
			}
			if took[i], err = load(ctx, i, dir, file, commands); err != nil {
				return err
			}
		}
		ratios = append(ratios, took[0].Seconds()/took[1].Seconds())
	}
	if *client == "" {
		return nil
	}
	fmt.Printf("basalt import is %.2f times as fast (%.2f to %.2f)\n", tool.Median(ratios), slices.Min(ratios),
		slices.Max(ratios))
	return nil
}

// load loads the keys into a new server: 0 by redis-cli, 1 by basalt import.
func load(ctx context.Context, by int, dir, file, commands string) (time.Duration, error) {
	data := filepath.Join(dir, "data")
	defer os.RemoveAll(data)
	s, err := launch.Start(launch.Basalt(*program, flag.Args()...), data)
	if err != nil {
		return 0, err
	}
	defer s.Kill()
	var cmd *exec.Cmd
	if by == 0 {
		_, port, err := net.SplitHostPort(s.Addr)
		if err != nil {
			return 0, err
		}
		cmd = exec.CommandContext(ctx, *client, "-p", port, "--pipe")
		in, err := os.Open(commands)
		if err != nil {
			return 0, err
		}
		defer in.Close()
		cmd.Stdin = in
	} else {
		cmd = exec.CommandContext(ctx, *program, "import", file, "--to", s.Addr, "--memory", *memory)
	}
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, out)
	}
	took := time.Since(began)
	spent, err := s.CPUTime()
	if err != nil {
		return 0, err
	}
	if size, err := s.Do("DBSIZE"); err != nil || size.Int != int64(*keys) {
		return 0, fmt.Errorf("DBSIZE: %v, %v", size, err)
	}
	state := cmd.ProcessState
	fmt.Printf("%-10s %6.2f %18.2f %8.2f\n", []string{"redis-cli", "import"}[by], took.Seconds(),
		(state.UserTime() + state.SystemTime()).Seconds(), spent.Seconds())
	return took, nil
}

// writeFiles writes the same keys as an RDB file and as commands.
func writeFiles(file, commands string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := os.Create(commands)
	if err != nil {
		return err
	}
	defer c.Close()
	sum := &summed{w: bufio.NewWriterSize(f, 1<<20)}
	w := bufio.NewWriterSize(c, 1<<20)
	sum.Write([]byte("REDIS0011"))
	r := rand.New(rand.NewPCG(1, 1))
	var body, key, b, one []byte
	order := r.Perm(*keys)
	for _, n := range order {
		key = loadgen.AppendDigits(append(key[:0], "key:"...), n)
		v := &rdb.Value{Kind: rdb.String}
		args := [][]byte{[]byte("SET"), key}
		switch *kind {
		case "hash":
			v.Kind, args[0] = rdb.Hash, []byte("HSET")
		case "zset":
			v.Kind, args[0] = rdb.ZSet, []byte("ZADD")
		}
		one = loadgen.AppendValue(one[:0], r, n, *value)
		if v.Kind == rdb.String {
			v.String = one
			args = append(args, one)
		}
		for i := 0; v.Kind != rdb.String && i < elements; i++ {
			part := one[i*len(one)/elements : (i+1)*len(one)/elements]
			if name := append([]byte{byte('a' + i)}, part...); v.Kind == rdb.Hash {
				v.Elems = append(v.Elems, name[:1], part)
				args = append(args, name[:1], part)
			} else {
				v.Elems, v.Scores = append(v.Elems, name), append(v.Scores, float64(i))
				args = append(args, strconv.AppendInt(nil, int64(i), 10), name)
			}
		}
		body, _ = rdb.AppendValue(body[:0], v)
		b = rdb.AppendKey(b[:0], key, body, 0)
		sum.Write(b)
		b = resp.AppendCommand(b[:0], args...)
		w.Write(b)
	}
	sum.Write([]byte{0xff})
	sum.Write(binary.LittleEndian.AppendUint64(nil, sum.sum))
	if err := sum.w.Flush(); err != nil {
		return err
	}
	return w.Flush()
}

// summed computes the checksum of what it writes. The writer keeps its first error.
type summed struct {
	w   *bufio.Writer
	sum uint64
}

func (s *summed) Write(b []byte) {
	s.sum = crc64.Update(s.sum, b)
	s.w.Write(b)
}
