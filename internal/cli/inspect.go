package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/offline"
	"github.com/basaltdb/basalt/internal/progress"
	"github.com/basaltdb/basalt/server/resp"
)

// inspectOptions are the flags.
type inspectOptions struct {
	login
	json, all     bool
	raw, ns       string
	top, max      int
	sample, speed int
	match         string
}

func inspectCommand(env *Env) *cobra.Command {
	var o inspectOptions
	c := &cobra.Command{
		Use: "inspect DIR|HOST:PORT", Short: "Shows the keys, their sizes, and what is garbage",
		Args: cobra.ExactArgs(1),
		Long: `Shows the number of keys by type, size and time to live, the largest keys, the size of each namespace, and what
compactions will drop.

With DIR, a data directory that no server has open, it reads all records. With HOST:PORT it reads the keys of one
namespace with SCAN: the first --sample of them, which are those with the lowest names in a basalt, and at most
--speed keys a second, so that clients do not notice. Garbage is only shown for a directory.

--raw KEY prints every record of a key, with the meaning of its bytes and the ldb command that shows it.`,
		Example: `  basalt inspect /var/lib/basalt
  basalt inspect --raw user:1 /var/lib/basalt
  basalt inspect --top 50 --all 127.0.0.1:6666`,
		RunE: func(cmd *cobra.Command, args []string) error {
			server, raw := isAddress(args[0]), cmd.Flags().Changed("raw")
			if server && raw {
				return Usage("--raw wants a directory")
			}
			if min(o.top, o.max, o.sample, o.speed) < 0 {
				return Usage("a number is negative")
			}
			for _, need := range []struct {
				met   bool
				what  string
				flags []string
			}{{server, "HOST:PORT", []string{"all", "match", "sample", "speed"}}, {raw, "--raw", []string{"max", "namespace"}}} {
				i := slices.IndexFunc(need.flags, cmd.Flags().Changed)
				if !need.met && i >= 0 {
					return Usage("--%s is for %s", need.flags[i], need.what)
				}
			}
			if server {
				return o.server(cmd.Context(), env, args[0])
			}
			dir, err := database(args[0])
			if err != nil {
				return err
			}
			if raw {
				return checkError(o.records(env, dir))
			}
			bars := &stages{env: env}
			in, err := offline.Inspect(cmd.Context(), dir, o.top, offline.Options{Phase: bars.phase})
			bars.stop()
			if err != nil {
				return checkError(err)
			}
			return o.print(env, in)
		},
	}
	f := c.Flags()
	f.IntVar(&o.top, "top", 20, "how many of the biggest keys to list")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.raw, "raw", "", "print the records of this `KEY`")
	f.StringVar(&o.ns, "namespace", cf.DefaultNamespace, "the namespace of --raw")
	f.IntVar(&o.max, "max", 256, "bytes of a value that --raw prints; 0 = all")
	f.IntVar(&o.sample, "sample", 100000, "keys of a server to look at, the first of SCAN")
	f.BoolVar(&o.all, "all", false, "look at all keys of a server")
	f.IntVar(&o.speed, "speed", 10000, "keys of a server a second; 0 = no limit")
	f.StringVar(&o.match, "match", "", "only keys of a server that match a `PATTERN`")
	o.flags(f)
	return c
}

// isAddress reports whether an argument is HOST:PORT rather than a file.
func isAddress(arg string) bool {
	if _, err := os.Stat(arg); err == nil {
		return false
	}
	_, port, err := net.SplitHostPort(arg)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

func (o *inspectOptions) records(env *Env, dir string) error {
	first := true
	return offline.Raw(dir, o.ns, []byte(o.raw), o.max, func(r offline.Record) error {
		if o.json {
			return env.JSON(r)
		}
		if !first {
			fmt.Fprintln(env.Out)
		}
		first = false
		fmt.Fprintf(env.Out, "%s\n  key    %s\n", r.Family, r.Key)
		for _, p := range r.Parts {
			fmt.Fprintf(env.Out, "    %s\n", p)
		}
		fmt.Fprintf(env.Out, "  value  %s\n", r.Value)
		for _, p := range r.Fields {
			fmt.Fprintf(env.Out, "    %s\n", p)
		}
		_, err := fmt.Fprintf(env.Out, "  %s\n", r.Ldb)
		return err
	})
}

// scanCount is the COUNT of a SCAN: small enough not to delay other clients.
const scanCount = 100

// server inspects the keys of a running server.
func (o *inspectOptions) server(ctx context.Context, env *Env, addr string) error {
	c, err := o.dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	began := time.Now()
	collector := offline.NewCollector(o.top, began)
	in := collector.In
	in.Server = addr
	total := int64(0)
	if v, err := c.Do("DBSIZE"); err == nil {
		total = v.Int
	}
	if !o.all {
		total = min(total, int64(o.sample))
	}
	bar := env.Progress("keys", total, progress.Items)
	defer func() { bar.Stop() }()
	for cursor := "0"; ; {
		args := []string{"SCAN", cursor, "COUNT", strconv.Itoa(scanCount)}
		if o.match != "" {
			args = append(args, "MATCH", o.match)
		}
		v, err := c.Do(args...)
		if err != nil {
			return fmt.Errorf("SCAN: %w", err)
		}
		if len(v.Elems) != 2 {
			return errors.New("the reply to SCAN is none of Redis")
		}
		var keys []string
		for _, k := range v.Elems[1].Elems {
			keys = append(keys, string(k.Text))
		}
		if err := o.fetch(c, keys, collector); err != nil {
			return err
		}
		bar.Add(int64(len(keys)))
		if cursor = string(v.Elems[0].Text); cursor == "0" {
			break
		}
		if !o.all && in.Keys >= int64(o.sample) {
			in.Sampled = true
			break
		}
		if err := pace(ctx, began, in.Keys, o.speed); err != nil {
			return err
		}
	}
	in.Seconds = time.Since(began).Seconds()
	bar.Stop()
	bar = nil
	return o.print(env, in)
}

// pace waits until n keys since began are at most speed keys a second.
func pace(ctx context.Context, began time.Time, n int64, speed int) error {
	var wait time.Duration
	if speed > 0 {
		wait = time.Until(began.Add(time.Duration(n) * time.Second / time.Duration(speed)))
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
		return nil
	}
}

// fetch gets type, time to live and size of keys in one pipeline. It skips keys that were deleted meanwhile.
func (o *inspectOptions) fetch(c *resp.Conn, keys []string, collector *offline.Collector) error {
	for _, k := range keys {
		c.Send("TYPE", k)
		c.Send("PEXPIRETIME", k)
		c.Send("MEMORY", "USAGE", k)
	}
	if err := c.Flush(); err != nil {
		return err
	}
	for _, k := range keys {
		key := offline.Key{Key: offline.Show([]byte(k))}
		var expire, size int64
		for i := range 3 {
			v, err := c.Receive()
			if err != nil {
				return err
			}
			switch {
			case v.Kind == '-': // an older server does not know the command
			case i == 0:
				key.Type = string(v.Text)
			case i == 1:
				expire = v.Int
			default:
				size = v.Int
			}
		}
		if key.Type == "none" || expire == -2 {
			continue
		}
		key.Expire, key.Bytes = max(expire, 0), max(size, 0)
		collector.Add(key)
	}
	return nil
}

func (o *inspectOptions) print(env *Env, in *offline.Inspection) error {
	if o.json {
		return env.JSON(in)
	}
	w := tabwriter.NewWriter(env.Out, 0, 8, 2, ' ', 0)
	what := in.Dir + in.Server
	fmt.Fprintf(w, "%s: %s, %s", what, plural(in.Keys, "key"), formatBytes(in.Bytes))
	if in.FileBytes > 0 {
		fmt.Fprintf(w, " in %s of files", formatBytes(in.FileBytes))
	}
	if in.Sampled {
		fmt.Fprint(w, " (the first of SCAN: --all looks at all keys)")
	}
	fmt.Fprintln(w)
	usage(w, "Types", in.Types)
	usage(w, "Namespaces", in.Namespaces)
	buckets(w, "Sizes", in.Sizes)
	buckets(w, "Expiry in", in.TTLs)
	keys(w, "Biggest keys", in.Biggest)
	keys(w, "Most members", in.Members)
	if g := in.Garbage; g != nil {
		fmt.Fprintf(w, "\nFor compactions to drop: %s, %s; %s expired, %s empty\n", plural(g.Records, "record"),
			formatBytes(g.Bytes), plural(g.Expired, "key"), plural(g.Empty, "key"))
		for _, k := range g.Versions {
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", named(k.Namespace, k.Key), plural(k.Versions, "old version"),
				plural(k.Records, "record"), formatBytes(k.Bytes))
		}
	}
	if len(in.Families) > 0 {
		fmt.Fprint(w, "\nColumn families\n")
	}
	for _, name := range slices.Sorted(maps.Keys(in.Families)) {
		f := in.Families[name]
		fmt.Fprintf(w, "  %s\t%s\t%s\n", name, plural(int64(f.Files), "file"), formatBytes(f.Bytes))
	}
	return w.Flush()
}

func usage(w io.Writer, title string, m map[string]*offline.Usage) {
	if len(m) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	for _, name := range slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		if m[a].Bytes != m[b].Bytes {
			return int(m[b].Bytes>>1 - m[a].Bytes>>1)
		}
		return strings.Compare(a, b)
	}) {
		u := m[name]
		fmt.Fprintf(w, "  %s\t%s\t", name, plural(u.Keys, "key"))
		if u.Members > 0 {
			fmt.Fprint(w, plural(u.Members, "member"))
		}
		fmt.Fprintf(w, "\t%s\n", formatBytes(u.Bytes))
	}
}

func buckets(w io.Writer, title string, list []offline.Bucket) {
	fmt.Fprintf(w, "\n%s\n", title)
	for _, b := range list {
		if b.Keys > 0 {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", b.Name, plural(b.Keys, "key"), formatBytes(b.Bytes))
		}
	}
}

func keys(w io.Writer, title string, list []offline.Key) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	for _, k := range list {
		fmt.Fprintf(w, "  %s\t%s\t", named(k.Namespace, k.Key), k.Type)
		if k.Members > 0 {
			fmt.Fprint(w, plural(k.Members, "member"))
		}
		fmt.Fprintf(w, "\t%s\n", formatBytes(k.Bytes))
	}
}

func named(ns, key string) string {
	if ns == "" || ns == cf.DefaultNamespace {
		return key
	}
	return key + " of " + ns
}
