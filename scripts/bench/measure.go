package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/basaltdb/basalt/scripts/internal/redisclient"
	"github.com/basaltdb/basalt/scripts/internal/tool"
)

const (
	connections = 50
	// measureTimeout bounds one measurement and one fill: redis-benchmark loops for ever when its server has ended.
	measureTimeout = 2 * time.Minute
)

// side is one of the two servers.
type side struct {
	name string
	addr string
	load *loader
}

func newSide(name, addr string) (*side, error) {
	c, err := redisclient.Dial(addr, time.Minute)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &side{name: name, addr: addr, load: &loader{c: c, made: map[string]bool{}}}, nil
}

// prepare puts the row's data in place for n requests.
func (s *side) prepare(r row, n int) error {
	if r.fill == nil {
		return nil
	}
	s.load.anew = r.refill
	if err := s.load.c.SetDeadline(time.Now().Add(measureTimeout)); err != nil {
		return err
	}
	if err := r.fill(s.load, n); err != nil {
		return fmt.Errorf("filling: %w", err)
	}
	return nil
}

// measure sends n requests of a row and returns the requests per second.
func (s *side) measure(r row, pipeline, n int) (float64, error) {
	if err := s.prepare(r, n); err != nil {
		return 0, err
	}
	if len(r.writes) > 0 {
		return s.mix(r, pipeline, n)
	}
	numbers := keyspace
	if r.keyspace > 0 {
		numbers = r.keyspace
	}
	args := []string{"-c", strconv.Itoa(connections), "-r", strconv.Itoa(numbers), "-d", strconv.Itoa(valueSize),
		"-P", strconv.Itoa(pipeline), "-n", strconv.Itoa(n)}
	if r.test != "" {
		args = append(args, "-t", r.test)
	} else {
		args = append(args, r.args...)
	}
	if r.subscribers == 0 {
		return s.benchmark(args)
	}
	heard, err := subscribe(s.addr, r.args[1], r.subscribers)
	if err != nil {
		return 0, err
	}
	defer heard.close()
	rate, err := s.benchmark(args)
	if err == nil {
		err = heard.wait(int64(n) * messageSize(r.args[1], r.args[2]))
	}
	return rate, err
}

// benchmark runs redis-benchmark and returns the requests per second.
func (s *side) benchmark(args []string) (float64, error) {
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return 0, err
	}
	ctx, cancel := timeout()
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "redis-benchmark", slices.Concat([]string{"-h", host, "-p", port, "--csv"}, args)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("redis-benchmark: %w: %s", err, complaint(stderr.String()))
	}
	return parseRate(stdout.String())
}

func timeout() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), measureTimeout)
}

// parseRate parses the requests per second from redis-benchmark's CSV, whose lines are "name","requests per
// second","average latency",... The name is the command as given, with unescaped quotes, so columns are counted from
// the end.
func parseRate(text string) (float64, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) < 2 {
		return 0, fmt.Errorf("redis-benchmark printed no result: %q", text)
	}
	columns := func(line string) []string { return strings.Split(line, `","`) }
	row := columns(lines[len(lines)-1])
	at := len(row) - len(columns(lines[0])) + 1
	if at < 1 {
		return 0, fmt.Errorf("redis-benchmark printed no result: %q", text)
	}
	rate, err := strconv.ParseFloat(strings.Trim(row[at], `"`), 64)
	if err != nil || rate <= 0 {
		return 0, fmt.Errorf("redis-benchmark printed no rate: %q", text)
	}
	return rate, nil
}

// complaint returns the server's error in the output of redis-benchmark, or else the whole output.
func complaint(stderr string) string {
	for line := range strings.Lines(stderr) {
		if _, text, found := strings.Cut(line, "Error from server: "); found {
			return strings.TrimSpace(text)
		}
	}
	return strings.TrimSpace(stderr)
}

// result is the result of one row at one pipeline length.
type result struct {
	Command   string    `json:"command"`
	Pipeline  int       `json:"pipeline"`
	Requests  int       `json:"requests"`
	Basalt    []float64 `json:"basalt"` // requests per second, one per repetition
	Redis     []float64 `json:"redis"`
	RangeRead bool      `json:"range_read"`
	Other     bool      `json:"other,omitempty"` // does not count in the means
	Family    string    `json:"family,omitempty"`
	Error     string    `json:"error,omitempty"`

	target      float64 // 0 = none
	spreadRange bool
}

func (r result) ratio() float64 { return tool.Median(r.Basalt) / tool.Median(r.Redis) }

// plan describes how long to measure.
type plan struct {
	requests int           // in each measurement; 0 = as many as take roughly
	duration time.Duration // duration on the slower of the two servers,
	rounds   int           // and at least so many pipelines on each connection
	reps     int
}

// compare measures a row on its servers.
func compare(basalt, redis *side, r row, pipeline int, p plan) result {
	res := result{Command: r.name, Pipeline: pipeline, RangeRead: r.rangeRead, Other: r.other,
		Family: r.family, spreadRange: r.spreadRange, target: target(r.targets(), pipeline)}
	figures, n, err := p.run(r.sides(basalt, redis), connections*pipeline*p.rounds,
		func(s *side, n int) (figure, rate float64, err error) {
			rate, err = s.measure(r, pipeline, n)
			return rate, rate, err
		})
	res.Basalt, res.Redis, res.Requests = figures[basalt], figures[redis], n
	if err != nil {
		res.Error = err.Error()
	}
	return res
}

// run measures the servers one after the other, in the reverse order in every second repetition, and returns a figure
// of each repetition, and the number n of requests in each. measure sends n requests and returns the figure and the
// requests per second. There are at least `least` requests.
func (p plan) run(sides []*side, least int, measure func(s *side, n int) (figure, rate float64, err error)) (
	figures map[*side][]float64, n int, err error) {
	if n = p.requests; n == 0 {
		// With few requests, connecting takes most of the time, and a server that has done nothing is slow at first. So
		// the number of requests is only derived from a trial with at least half as many.
		n = least
		for tried := 0; tried*2 < n; {
			slower := math.Inf(1)
			for _, s := range sides {
				_, rate, err := measure(s, n)
				if err != nil {
					return nil, n, fmt.Errorf("%s: %w", s.name, err)
				}
				slower = min(slower, rate)
			}
			tried, n = n, max(least, int(slower*p.duration.Seconds()))
		}
	}
	figures = map[*side][]float64{}
	for range p.reps {
		for _, s := range sides {
			figure, _, err := measure(s, n)
			if err != nil {
				return figures, n, fmt.Errorf("%s: %w", s.name, err)
			}
			figures[s] = append(figures[s], figure)
		}
		slices.Reverse(sides)
	}
	return figures, n, nil
}

// targets returns the min ratios of the row.
func (r row) targets() [3]float64 {
	if r.family != "" {
		return r.target
	}
	return targets[r.name]
}

// sides returns the servers on which the row is measured.
func (r row) sides(basalt, redis *side) []*side {
	if r.alone {
		return []*side{basalt}
	}
	return []*side{basalt, redis}
}

// pick returns the rows and scripts with the given comma-separated names of rows, families or scripts, or all of them
// if names is empty. "Lua" stands for all scripts.
func pick(names string) ([]row, []script, error) {
	if names == "" {
		return rows(), scriptRows(), nil
	}
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(names, ",") {
		wanted[strings.ToUpper(strings.TrimSpace(name))] = true
	}
	var commands []row
	var scripts []script
	found := map[string]bool{}
	is := func(name string) bool {
		name = strings.ToUpper(name)
		found[name] = found[name] || wanted[name]
		return wanted[name]
	}
	for _, r := range rows() {
		if name, family := is(r.name), is(r.family); name || family {
			commands = append(commands, r)
		}
	}
	for _, r := range scriptRows() {
		if name, all := is(r.name), is("Lua"); name || all {
			scripts = append(scripts, r)
		}
	}
	for name := range wanted {
		if !found[name] {
			return nil, nil, fmt.Errorf("-commands: no row is called %s (see -list)", name)
		}
	}
	return commands, scripts, nil
}

// parsePipelines parses "1,16,64".
func parsePipelines(s string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 {
			return nil, errors.New("-pipelines: needs a list of numbers such as 1,16,64")
		}
		out = append(out, n)
	}
	return out, nil
}
