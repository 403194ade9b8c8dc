package backup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
)

// fakeS3 is as much of S3 as a store needs, without signatures and parts. BASALT_TEST_S3, s3://BUCKET/PREFIX with the
// AWS_* variables, lets the tests use a real server (scripts/compat/s3.sh).
type fakeS3 struct {
	mu      sync.Mutex
	objects map[string][]byte
	times   map[string]time.Time
}

func (s *fakeS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/bucket/")
	switch {
	case r.URL.Query().Has("location"):
		io.WriteString(w, `<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></LocationConstraint>`)
	case r.URL.Query().Has("uploads"):
		io.WriteString(w, `<ListMultipartUploadsResult><IsTruncated>false</IsTruncated></ListMultipartUploadsResult>`)
	case r.URL.Query().Has("list-type"):
		s.list(w, r.URL.Query())
	case r.Method == http.MethodPut:
		body, err := content(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.objects[key], s.times[key] = body, time.Now()
		w.Header().Set("ETag", `"0123456789abcdef0123456789abcdef"`)
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case s.objects[key] == nil:
		w.WriteHeader(http.StatusNotFound)
		if r.Method == http.MethodGet {
			io.WriteString(w, `<Error><Code>NoSuchKey</Code></Error>`)
		}
	default:
		w.Header().Set("ETag", `"0123456789abcdef0123456789abcdef"`)
		http.ServeContent(w, r, "", s.times[key], bytes.NewReader(s.objects[key]))
	}
}

func (s *fakeS3) list(w io.Writer, q url.Values) {
	var keys []string
	for k := range s.objects {
		if strings.HasPrefix(k, q.Get("prefix")) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	fmt.Fprint(w, `<ListBucketResult><IsTruncated>false</IsTruncated>`)
	for _, k := range keys {
		fmt.Fprintf(w, `<Contents><Key>%s</Key><Size>%d</Size><LastModified>%s</LastModified></Contents>`, url.QueryEscape(k),
			len(s.objects[k]), s.times[k].UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	fmt.Fprint(w, `<EncodingType>url</EncodingType></ListBucketResult>`)
}

// content returns the body of a request, which may come in signed chunks: a line "<hex length>;chunk-signature=..." and
// so many bytes, up to one of length 0.
func content(r *http.Request) ([]byte, error) {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return io.ReadAll(r.Body)
	}
	body := []byte{}
	for in := bufio.NewReader(r.Body); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		hex, _, _ := strings.Cut(strings.TrimSpace(line), ";")
		n, err := strconv.ParseInt(hex, 16, 64)
		if err != nil || n == 0 {
			return body, err
		}
		chunk := make([]byte, n+2)
		if _, err := io.ReadFull(in, chunk); err != nil {
			return nil, err
		}
		body = append(body, chunk[:n]...)
	}
}

// s3Location returns where an empty repository can be in S3.
func s3Location(t *testing.T) string {
	t.Helper()
	if real := os.Getenv("BASALT_TEST_S3"); real != "" {
		return real + "/" + randomHex(8)
	}
	srv := httptest.NewServer(&fakeS3{objects: map[string][]byte{}, times: map[string]time.Time{}})
	t.Cleanup(srv.Close)
	t.Setenv("AWS_ENDPOINT_URL_S3", srv.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	return "s3://bucket/some/prefix"
}

// What S3 refuses is told in its own words, and a missing bucket is no empty repository.
func TestS3Refuses(t *testing.T) {
	for _, tt := range []struct {
		status     int
		code, text string
	}{
		{http.StatusBadRequest, "AuthorizationHeaderMalformed", "the region is wrong"},
		{http.StatusNotFound, "NoSuchBucket", "the bucket is missing"},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(tt.status)
			if r.Method != http.MethodHead {
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>%s</Message></Error>", tt.code, tt.text)
			}
		}))
		defer srv.Close()
		t.Setenv("AWS_ENDPOINT_URL_S3", srv.URL)
		t.Setenv("AWS_REGION", "eu-central-1")
		t.Setenv("AWS_ACCESS_KEY_ID", "test")
		t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
		_, err := Open(t.Context(), "s3://bucket/prefix", false)
		if err == nil || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", tt.code, err)
		}
	}
}

// Both stores do the same.
func TestStores(t *testing.T) {
	for _, kind := range []string{"directory", "S3"} {
		t.Run(kind, func(t *testing.T) {
			location := t.TempDir() + "/a/b"
			if kind == "S3" {
				location = s3Location(t)
			}
			s, err := OpenStore(location, true)
			require.NoError(t, err)
			ctx := t.Context()
			names := func(prefix string) (list []string) {
				t.Helper()
				require.NoError(t, s.List(ctx, prefix, func(o Object) error {
					list = append(list, fmt.Sprintf("%s=%d", o.Name, o.Size))
					if age := time.Since(o.Modified); age < -time.Minute || age > time.Minute {
						t.Errorf("%s is %v old", o.Name, age)
					}
					return nil
				}))
				slices.Sort(list)
				return list
			}
			if got := names(""); len(got) != 0 {
				t.Errorf("at first there is %v", got)
			}
			if _, err := s.Open(ctx, "files/none"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("what is not there: %v", err)
			}
			w, err := s.Create(ctx)
			require.NoError(t, err)
			io.WriteString(w, "never seen")
			w.Abort()
			big := bytes.Repeat([]byte("0123456789"), 100_000)
			for name, content := range map[string][]byte{"files/aa/1": []byte("one"), "files/ab/2": big, "log/x/3": {},
				"top.json": []byte("first")} {
				if err := put(ctx, s, name, content); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			require.NoError(t, put(ctx, s, "top.json", []byte("again")))
			if got := names("files/"); !slices.Equal(got, []string{"files/aa/1=3", "files/ab/2=1000000"}) {
				t.Errorf("files: %v", got)
			}
			if got := names(""); len(got) != 4 {
				t.Errorf("all: %v", got)
			}
			if b, err := get(ctx, s, "files/ab/2", 1<<20); err != nil || !bytes.Equal(b, big) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
			if b, err := get(ctx, s, "top.json", 5); err != nil || string(b) != "again" {
				t.Errorf("%q, %v", b, err)
			}
			if _, err := get(ctx, s, "top.json", 4); err == nil {
				t.Error("too long an object is read")
			}
			for range 2 { // what is gone is removed without an error
				if err := s.Remove(ctx, "files/aa/1"); err != nil {
					t.Error(err)
				}
			}
			if got := names("files/"); !slices.Equal(got, []string{"files/ab/2=1000000"}) {
				t.Errorf("files: %v", got)
			}
			if err := s.CleanUp(ctx, time.Now().Add(time.Hour)); err != nil {
				t.Error(err)
			}
			canceled, cancel := context.WithCancel(ctx)
			cancel()
			if err := s.List(canceled, "", func(Object) error { return nil }); !errors.Is(err, context.Canceled) {
				t.Errorf("a list that is cancelled: %v", err)
			}
		})
	}
	for _, location := range []string{"ftp://x/y", "s3://", "http://x"} {
		if _, err := OpenStore(location, true); err == nil {
			t.Errorf("%s is taken", location)
		}
	}
}

// A repository in S3: backups, the log, restore, prune.
func TestS3(t *testing.T) {
	r, err := Open(t.Context(), s3Location(t), true)
	require.NoError(t, err)
	s := startServer(t, "")
	c := s.dial(t)
	fill(c, "a")
	s.create(r)
	f := s.follow(r, "")
	f.await("a backup was made")
	c.do("SET n 1")
	s.stored(r)
	point := Point{f.timelineID(), s.db.LatestSequence()}
	c.do("FLUSHALL")
	s.stored(r)
	f.end()
	p, err := r.Prune(t.Context(), PruneOptions{KeepLast: 1})
	if err != nil || len(p.Removed) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if v, err := r.Verify(t.Context(), VerifyOptions{}); err != nil || len(v.Damage) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	again, _ := restore(t, r, RestoreOptions{Point: &point})
	c = again.dial(t)
	check(c, "a")
	if got := c.do("GET n"); got != "1" {
		t.Errorf("%q", got)
	}
}

// An object of several parts.
func TestParts(t *testing.T) {
	if os.Getenv("BASALT_TEST_S3") == "" {
		t.Skip("only a real server has parts: scripts/compat/s3.sh")
	}
	s, err := OpenStore(s3Location(t), true)
	require.NoError(t, err)
	big := bytes.Repeat([]byte("0123456789abcdef"), (s3Part+s3Part/2)/16)
	require.NoError(t, put(t.Context(), s, "files/big", big))
	if b, err := get(t.Context(), s, "files/big", 1<<30); err != nil || !bytes.Equal(b, big) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
}
