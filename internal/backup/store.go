package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

// Store stores objects by name. A name consists of parts of letters, digits, '-' and '.', separated by '/'. The methods
// are safe for concurrent use.
type Store interface {
	// Create starts an object.
	Create(ctx context.Context) (Writer, error)
	// Open opens an object for reading. A missing object gives fs.ErrNotExist.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// List calls f for every object whose name begins with prefix, which ends with '/' or is empty.
	List(ctx context.Context, prefix string, f func(Object) error) error
	// Remove removes an object. A missing object is no error.
	Remove(ctx context.Context, name string) error
	// CleanUp removes leftovers of killed writers that are older than before.
	CleanUp(ctx context.Context, before time.Time) error
	// String returns the location of the store, for messages.
	String() string
}

// Writer writes an object. One of Commit and Abort must be called.
type Writer interface {
	io.Writer
	// Commit makes the object visible under a name, complete and durable. It replaces an older object.
	Commit(name string) error
	// Abort discards the object. After Commit it does nothing.
	Abort()
}

// Object is an entry of List.
type Object struct {
	Name     string
	Size     int64
	Modified time.Time // by the clock of the store
}

// OpenStore opens a directory, or s3://BUCKET[/PREFIX]. With create, a missing directory is created.
func OpenStore(location string, create bool) (Store, error) {
	if strings.Contains(location, "://") {
		u, err := url.Parse(location)
		if err != nil || u.Scheme != "s3" || u.Host == "" {
			return nil, fmt.Errorf("%s: not a directory and not s3://BUCKET/PREFIX", location)
		}
		return openS3(u.Host, strings.Trim(u.Path, "/"))
	}
	return openDir(location, create)
}

// put stores bytes as an object.
func put(ctx context.Context, s Store, name string, content []byte) error {
	w, err := s.Create(ctx)
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(content); err != nil {
		return err
	}
	return w.Commit(name)
}

// get returns an object of at most limit bytes.
func get(ctx context.Context, s Store, name string, limit int64) ([]byte, error) {
	r, err := s.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var b bytes.Buffer
	n, err := io.Copy(&b, io.LimitReader(r, limit+1))
	if err == nil && n > limit {
		err = errors.New("it is too long")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return b.Bytes(), nil
}
