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

// Store holds objects by name. A name has parts of letters, digits, '-' and '.', with '/' between them. Methods may be
// called by several goroutines.
type Store interface {
	// Create begins an object.
	Create(ctx context.Context) (Writer, error)
	// Open reads an object. The error is fs.ErrNotExist when there is none.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// List calls f for every object whose name begins with prefix, which ends with '/' or is empty.
	List(ctx context.Context, prefix string, f func(Object) error) error
	// Remove removes an object. It is no error when there is none.
	Remove(ctx context.Context, name string) error
	// CleanUp removes what writers that were killed have left, older than a time.
	CleanUp(ctx context.Context, before time.Time) error
	// String returns where the store is, for people.
	String() string
}

// Writer writes an object. One of Commit and Abort must be called.
type Writer interface {
	io.Writer
	// Commit lets the object appear under a name, whole and durable. It replaces an older one.
	Commit(name string) error
	// Abort forgets the object. After Commit it does nothing.
	Abort()
}

// Object is what List tells.
type Object struct {
	Name     string
	Size     int64
	Modified time.Time // by the clock of the store
}

// OpenStore opens a directory, or s3://BUCKET[/PREFIX]. With create a directory is made if need be.
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
