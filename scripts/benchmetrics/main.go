// Benchmetrics measures what /metrics costs: the processor time a request under full load of a server without
// admin-listen, and of one that is scraped every -every, in turns; then that of a second without load, and of a scrape.
//
//	go run ./scripts/benchmetrics [-rounds 9] [-time 5s] [-every 15s] [-- --key value ...]
//
// The last column is the median of the ratios of the rounds, of which each loads both servers, and their quartiles.
// Every other round begins with the scraped server. It ends with 1 when a median is above 1.01. Two servers differ by
// some percent by chance, as do two loads of one: the last rows tell what a ratio near 1 cannot. Arguments after the
// flags go to both servers. The machine must be quiet.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/launch"
	"github.com/basaltdb/basalt/scripts/internal/loadgen"
	"github.com/basaltdb/basalt/scripts/internal/tool"
)

const (
	keys      = 100_000
	valueSize = 128
	most      = 1.01 // max ratio
	scrapes   = 50   // at the end
)

var (
	program = flag.String("basalt", "build/basalt", "the program to measure")
	rounds  = flag.Int("rounds", 9, "how often both servers are loaded")
	during  = flag.Duration("time", 5*time.Second, "length of each load")
	every   = flag.Duration("every", 15*time.Second, "time between two scrapes; each load begins with one")
)

func main() {
	flag.Parse()
	tool.Main("benchmetrics", run)
}

var (
	get = &loadgen.Op{
		Encode: func(dst []byte, _ *rand.Rand, key int) []byte {
			dst = append(dst, "*2\r\n$3\r\nGET\r\n$16\r\nkey:"...)
			return append(loadgen.AppendDigits(dst, key), "\r\n"...)
		},
		Check: func(reply []byte, _ int) bool { return reply[0] == '$' },
	}
	set = loadgen.Set(valueSize)
)

// server is a measured server.
type server struct {
	*launch.Server
	metrics string // URL of its metrics, "" = none
}

// pair are the servers without and with admin-listen.
type pair [2]server

// address matches the address of the metrics in the log.
var address = regexp.MustCompile(`HTTP \{"address": "([^"]+)"`)

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "basalt-metrics-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var servers pair
	for i, extra := range [][]string{nil, {"--admin-listen", "127.0.0.1:0"}} {
		args := slices.Concat(flag.Args(), extra)
		s, err := launch.Start(launch.Basalt(*program, args...), filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			return err
		}
		defer s.Kill()
		servers[i].Server = s
		if m := address.FindStringSubmatch(s.Output()); m != nil {
			servers[i].metrics = "http://" + m[1] + "/metrics"
		}
	}
	if servers[1].metrics == "" {
		return errors.New("the log does not say where the metrics are")
	}
	bad := false
	fmt.Println("processor time a request   without, us   scraped, us   ratio (quartiles)")
	for _, l := range []struct {
		name     string
		op       *loadgen.Op
		pipeline int
	}{{"SET P=16", set, 16}, {"GET P=16", get, 16}, {"SET P=1", set, 1}, {"GET P=1", get, 1}} {
		var alone, scraped, ratios []float64
		for round := range *rounds {
			var took [2]float64
			for i := range servers {
				i ^= round & 1
				if took[i], err = servers[i].load(ctx, l.op, l.pipeline); err != nil {
					return err
				}
			}
			alone, scraped = append(alone, took[0]), append(scraped, took[1])
			ratios = append(ratios, took[1]/took[0])
		}
		for _, list := range [][]float64{alone, scraped, ratios} {
			slices.Sort(list)
		}
		n := len(ratios)
		verdict := ""
		if ratios[n/2] > most {
			verdict, bad = "  ABOVE", true
		}
		fmt.Printf("%-24s %14.3f %13.3f   %.3f (%.3f to %.3f)%s\n", l.name, alone[n/2], scraped[n/2], ratios[n/2],
			ratios[n/4], ratios[3*n/4], verdict)
	}
	if err := servers.rest(ctx); err != nil {
		return err
	}
	if bad {
		return fmt.Errorf("a ratio is above %g", most)
	}
	return nil
}

// rest prints the cost of a second without load, and of a scrape.
func (s *pair) rest(ctx context.Context) error {
	var idle [2]time.Duration
	for i := range s {
		var err error
		if idle[i], err = s[i].Spent(func() error {
			select {
			case <-ctx.Done():
			case <-time.After(*during):
			}
			return ctx.Err()
		}); err != nil {
			return err
		}
	}
	seconds := during.Seconds()
	fmt.Printf("a second without load, not scraped: %.2f ms without admin-listen, %.2f ms with it\n",
		idle[0].Seconds()*1000/seconds, idle[1].Seconds()*1000/seconds)
	spent, err := s[1].Spent(func() error {
		for range scrapes {
			if err := s[1].read(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	each := spent / scrapes
	fmt.Printf("a scrape: %.2f ms, one every %v: %.3f %% of a processor\n", each.Seconds()*1000, *every,
		100*each.Seconds()/every.Seconds())
	return nil
}

// load loads a server and returns the CPU time per request in microseconds.
func (s *server) load(ctx context.Context, op *loadgen.Op, pipeline int) (float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	scraping := make(chan error, 1)
	go func() { scraping <- s.scrape(ctx) }()
	var requests int64
	spent, err := s.Spent(func() error {
		r, err := loadgen.Run(ctx, loadgen.Load{Addr: s.Addr, Connections: 50, Pipeline: pipeline, Duration: *during,
			Seed: rand.Uint64(), Next: func(r *rand.Rand) (*loadgen.Op, int) { return op, r.IntN(keys) }})
		if err == nil {
			requests = r.Requests
		}
		return err
	})
	cancel()
	if e := <-scraping; err == nil {
		err = e
	}
	return float64(spent.Nanoseconds()) / 1000 / float64(requests), err
}

// scrape reads the metrics until ctx is done.
func (s *server) scrape(ctx context.Context) error {
	for s.metrics != "" {
		if err := s.read(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(*every):
		}
	}
	return nil
}

func (s *server) read() error {
	response, err := http.Get(s.metrics)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
