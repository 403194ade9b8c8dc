package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// s3Store is a bucket, or a prefix in one. The environment contains the address of the service and the credentials, as
// for Amazon's own tools:
//
//	AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL   default https://s3.amazonaws.com
//	AWS_REGION, AWS_DEFAULT_REGION          default: the service is asked
//	AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; else ~/.aws/credentials with AWS_PROFILE;
//	else the role of the machine
type s3Store struct {
	c      *minio.Client
	bucket string
	prefix string // empty, or with '/' at its end
}

// s3Part is the part size in which a large object is sent: a failed part is sent again. With at most 10,000 parts, an
// object has up to 640 GiB.
const s3Part = 64 << 20

func openS3(bucket, prefix string) (Store, error) {
	endpoint := &url.URL{Scheme: "https", Host: "s3.amazonaws.com"}
	for _, name := range []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"} {
		if v := os.Getenv(name); v != "" {
			u, err := url.Parse(v)
			if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return nil, fmt.Errorf("%s: not a URL: %q", name, v)
			}
			endpoint = u
			break
		}
	}
	region := os.Getenv("AWS_REGION")
	if region == "" {
		region = os.Getenv("AWS_DEFAULT_REGION")
	}
	c, err := minio.New(endpoint.Host, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{Client: http.DefaultClient},
		}),
		Secure: endpoint.Scheme == "https", Region: region,
	})
	if err != nil {
		return nil, err
	}
	if prefix != "" {
		prefix += "/"
	}
	return &s3Store{c: c, bucket: bucket, prefix: prefix}, nil
}

func (s *s3Store) String() string { return "s3://" + s.bucket + "/" + s.prefix }

// s3Error converts the error of a missing object to fs.ErrNotExist, and adds descriptions to others.
func (s *s3Store) error(err error) error {
	if err == nil {
		return nil
	}
	if r := minio.ToErrorResponse(err); r.Code == minio.NoSuchKey {
		return fs.ErrNotExist
	}
	return fmt.Errorf("%s: %w", s, err)
}

// s3Writer collects an object in a temporary file, because its name is only known at the end.
type s3Writer struct {
	*os.File
	s    *s3Store
	ctx  context.Context
	size int64
}

func (s *s3Store) Create(ctx context.Context) (Writer, error) {
	f, err := os.CreateTemp("", "basalt-backup-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil { // nothing is left behind in any case
		f.Close()
		return nil, err
	}
	return &s3Writer{File: f, s: s, ctx: ctx}, nil
}

func (w *s3Writer) Write(b []byte) (int, error) {
	n, err := w.File.Write(b)
	w.size += int64(n)
	return n, err
}

func (w *s3Writer) Commit(name string) error {
	if _, err := w.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := w.s.c.PutObject(w.ctx, w.s.bucket, w.s.prefix+name, w.File, w.size,
		minio.PutObjectOptions{PartSize: s3Part, ContentType: "application/octet-stream"})
	return errors.Join(w.s.error(err), w.Close())
}

func (w *s3Writer) Abort() { w.Close() }

func (s *s3Store) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	// Client.GetObject begins with a HEAD, whose failure has no text that could say what is wrong.
	body, _, _, err := minio.Core{Client: s.c}.GetObject(ctx, s.bucket, s.prefix+name, minio.GetObjectOptions{})
	if err != nil {
		return nil, s.error(err)
	}
	return body, nil
}

func (s *s3Store) List(ctx context.Context, prefix string, f func(Object) error) error {
	ctx, cancel := context.WithCancel(ctx) // cancel ends the lister
	defer cancel()
	for o := range s.c.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return s.error(o.Err)
		}
		name := strings.TrimPrefix(o.Key, s.prefix)
		if err := f(Object{Name: name, Size: o.Size, Modified: o.LastModified}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *s3Store) Remove(ctx context.Context, name string) error {
	err := s.error(s.c.RemoveObject(ctx, s.bucket, s.prefix+name, minio.RemoveObjectOptions{}))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// CleanUp aborts multipart uploads that were begun before a time and never completed.
func (s *s3Store) CleanUp(ctx context.Context, before time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for u := range s.c.ListIncompleteUploads(ctx, s.bucket, s.prefix, true) {
		if u.Err != nil {
			return s.error(u.Err)
		}
		if u.Initiated.Before(before) {
			if err := s.c.RemoveIncompleteUpload(ctx, s.bucket, u.Key); err != nil {
				return s.error(err)
			}
		}
	}
	return nil
}
