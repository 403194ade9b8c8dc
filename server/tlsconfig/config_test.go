package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/internal/testcert"
)

// handshake connects a client with a server over a pipe.
func handshake(t *testing.T, server, client *tls.Config) (tls.ConnectionState, error) {
	t.Helper()
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	s, c := tls.Server(here, server), tls.Client(there, client)
	served := make(chan error, 1)
	go func() {
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x")) // with it come the tickets of TLS 1.3
		} else {
			here.Close()
		}
		served <- err
	}()
	err := c.Handshake()
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	there.Close()
	if e := <-served; err == nil {
		err = e
	}
	return c.ConnectionState(), err
}

func TestServer(t *testing.T) {
	ca, other := testcert.New(t), testcert.New(t)
	cert, key := ca.Issue("server")
	_, otherKey := ca.Issue("other")
	caDir := t.TempDir()
	for name, data := range map[string]string{"1.pem": "no certificate", "sub/x": ""} {
		path := filepath.Join(caDir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(data), 0o600))
	}
	emptyDir := t.TempDir()
	require.NoError(t, os.Symlink(ca.File, filepath.Join(caDir, "2b.0")))
	base := Options{CertFile: cert, KeyFile: key, AuthClients: "no"}
	with := func(change func(o *Options)) Options {
		o := base
		change(&o)
		return o
	}
	anonymous, known, stranger := ca.Client(""), ca.Client("c"), ca.Client("")
	stranger.Certificates = other.Client("s").Certificates
	stranger.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate,
		error) {
		return &stranger.Certificates[0], nil
	}
	old := ca.Client("")
	old.MaxVersion = tls.VersionTLS12
	old11 := ca.Client("")
	old11.MinVersion, old11.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	for _, tt := range []struct {
		name    string
		o       Options
		client  *tls.Config
		err     string // of Server, its beginning
		refused bool
		version uint16
		suite   uint16
	}{
		{name: "plain", o: base, client: anonymous, version: tls.VersionTLS13},
		{name: "no certificate file", o: with(func(o *Options) { o.CertFile = "" }), err: "tls-cert-file: a TLS port needs"},
		{name: "no key file", o: with(func(o *Options) { o.KeyFile = "" }), err: "tls-key-file: a TLS port needs"},
		{name: "missing file", o: with(func(o *Options) { o.CertFile = "/nonexistent" }),
			err: "tls-cert-file: open /nonexistent: no such file"},
		{name: "key of another", o: with(func(o *Options) { o.KeyFile = otherKey }),
			err: "tls-key-file: private key does not match public key"},
		{name: "a key as certificate", o: with(func(o *Options) { o.CertFile = key }),
			err: "tls-cert-file: there is no certificate in it"},
		{name: "a certificate as key", o: with(func(o *Options) { o.KeyFile = cert }),
			err: "tls-key-file: found a certificate rather than"},
		{name: "no authority", o: with(func(o *Options) { o.AuthClients = "" }),
			err: "tls-ca-cert-file: this or tls-ca-cert-dir is needed"},
		{name: "key as authority", o: with(func(o *Options) { o.AuthClients, o.CACertFile = "yes", key }),
			err: "tls-ca-cert-file: there is no certificate in it"},
		{name: "missing directory", o: with(func(o *Options) { o.AuthClients, o.CACertDir = "yes", "/nonexistent" }),
			err: "tls-ca-cert-dir: open /nonexistent"},
		{name: "empty directory", o: with(func(o *Options) { o.AuthClients, o.CACertDir = "yes", emptyDir }),
			err: "tls-ca-cert-dir: there is no certificate"},
		{name: "required, none", o: with(func(o *Options) { o.AuthClients, o.CACertFile = "yes", ca.File }),
			client: anonymous, refused: true},
		{name: "required, good", o: with(func(o *Options) { o.AuthClients, o.CACertFile = "", ca.File }),
			client: known, version: tls.VersionTLS13},
		{name: "required, good, directory", o: with(func(o *Options) { o.AuthClients, o.CACertDir = "true", caDir }),
			client: known, version: tls.VersionTLS13},
		{name: "required, wrong", o: with(func(o *Options) { o.AuthClients, o.CACertFile = "yes", ca.File }),
			client: stranger, refused: true},
		{name: "optional, none", o: with(func(o *Options) { o.AuthClients, o.CACertFile = "OPTIONAL", ca.File }),
			client: anonymous, version: tls.VersionTLS13},
		{name: "optional, wrong", o: with(func(o *Options) { o.AuthClients, o.CACertFile = "optional", ca.File }),
			client: stranger, refused: true},
		{name: "not asked for", o: with(func(o *Options) { o.CACertFile = ca.File }), client: stranger,
			version: tls.VersionTLS13},
		{name: "1.2 client", o: base, client: old, version: tls.VersionTLS12},
		{name: "1.1 client", o: base, client: old11, refused: true},
		{name: "only 1.3", o: with(func(o *Options) { o.Protocols = "tlsv1.3" }), client: old, refused: true},
		{name: "up to 1.2", o: with(func(o *Options) { o.Protocols = "TLSv1.2 TLSv1.1" }), client: anonymous,
			version: tls.VersionTLS12},
		{name: "unknown version", o: with(func(o *Options) { o.Protocols = "TLSv1.2 SSLv3" }),
			err: "tls-protocols: unknown version 'sslv3'"},
		{name: "gap", o: with(func(o *Options) { o.Protocols = "TLSv1.3 TLSv1.1" }),
			err: "tls-protocols: there must be no gap"},
		{name: "one cipher", o: with(func(o *Options) { o.Ciphers = "ECDHE-ECDSA-AES256-GCM-SHA384" }), client: old,
			version: tls.VersionTLS12,
			suite:   tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384},
		{name: "no shared cipher", o: with(func(o *Options) { o.Ciphers = "ECDHE-RSA-AES256-GCM-SHA384" }),
			client: old, refused: true},
		{name: "unknown ciphers", o: with(func(o *Options) { o.Ciphers = "CAMELLIA256-SHA" }),
			err: "tls-ciphers: there is no cipher"},
		{name: "all suites", o: with(func(o *Options) {
			o.CipherSuites = "TLS_CHACHA20_POLY1305_SHA256:TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256"
		}), client: anonymous, version: tls.VersionTLS13},
		{name: "one suite", o: with(func(o *Options) { o.CipherSuites = "TLS_CHACHA20_POLY1305_SHA256" }),
			err: "tls-ciphersuites: TLS 1.3 always offers"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, _, err := Server(tt.o)
			if tt.err != "" {
				if _, ok := errors.AsType[*Error](err); !ok || !strings.HasPrefix(err.Error(), tt.err) ||
					strings.Contains(err.Error(), "\n") {
					t.Fatalf("%v, want %s", err, tt.err)
				}
				return
			}
			require.NoError(t, err)
			state, err := handshake(t, c, tt.client)
			if (err != nil) != tt.refused {
				t.Fatalf("handshake: %v", err)
			}
			if !tt.refused && (state.Version != tt.version || tt.suite != 0 && state.CipherSuite != tt.suite) {
				t.Errorf("version %x, suite %x", state.Version, state.CipherSuite)
			}
		})
	}
}

func TestSessions(t *testing.T) {
	ca := testcert.New(t)
	cert, key := ca.Issue("server")
	for _, tt := range []struct {
		caching bool
		timeout time.Duration
		resumed bool
	}{
		{true, time.Minute, true}, {true, -1, false}, {true, time.Nanosecond, false}, {false, time.Minute, false},
	} {
		for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			c, _, err := Server(Options{CertFile: cert, KeyFile: key, AuthClients: "no", SessionCaching: tt.caching,
				SessionTimeout: tt.timeout})
			require.NoError(t, err)
			client := ca.Client("")
			client.MaxVersion = version
			client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			var state tls.ConnectionState
			for range 2 {
				if state, err = handshake(t, c, client); err != nil {
					t.Fatal(err)
				}
				if tt.timeout == time.Nanosecond { // whole seconds are counted
					for start := time.Now().Unix(); time.Now().Unix() == start; time.Sleep(10 * time.Millisecond) {
					}
				}
			}
			if state.DidResume != tt.resumed {
				t.Errorf("%+v, version %x: resumed %v", tt, version, state.DidResume)
			}
			// What another configuration has made is worth nothing.
			next, _, err := Server(Options{CertFile: cert, KeyFile: key, AuthClients: "no", SessionCaching: true,
				SessionTimeout: time.Minute})
			require.NoError(t, err)
			if state, err = handshake(t, next, client); err != nil || state.DidResume {
				t.Errorf("%+v, version %x: after a reload: resumed %v, %v", tt, version, state.DidResume, err)
			}
		}
	}
}

// TestCipherNames compares with the names that OpenSSL gives the suites.
func TestCipherNames(t *testing.T) {
	out, err := exec.Command("openssl", "ciphers", "-stdname", "ALL:@SECLEVEL=0").Output()
	require.NoError(t, err)
	known := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) > 2 {
			known[f[0]] = f[2]
		}
	}
	compared := 0
	for _, s := range suites {
		if name := known[s.name]; name != "" {
			compared++
			if name != s.openssl {
				t.Errorf("%s is %s, not %s", s.name, name, s.openssl)
			}
		}
	}
	if compared < 14 {
		t.Errorf("only %d suites were compared", compared)
	}
}

func TestCiphers(t *testing.T) {
	names := func(ids []uint16) (list []string) {
		for _, id := range ids {
			for _, s := range suites {
				if s.id == id {
					list = append(list, s.openssl)
				}
			}
		}
		slices.Sort(list)
		return list
	}
	for _, tt := range []struct{ list, want, ignored string }{
		{"", "", ""},
		{"AES128-GCM-SHA256", "AES128-GCM-SHA256", ""},
		{"TLS_RSA_WITH_AES_128_GCM_SHA256,AES256-GCM-SHA384", "AES128-GCM-SHA256 AES256-GCM-SHA384", ""},
		{"DHE-RSA-AES128-GCM-SHA256:AES128-SHA:@STRENGTH", "AES128-SHA", "DHE-RSA-AES128-GCM-SHA256 @STRENGTH"},
		{"ECDHE+AESGCM:!aNULL:!eNULL:-ECDSA", "ECDHE-RSA-AES128-GCM-SHA256 ECDHE-RSA-AES256-GCM-SHA384", ""},
		{"!AES128:ECDHE+AESGCM", "ECDHE-ECDSA-AES256-GCM-SHA384 ECDHE-RSA-AES256-GCM-SHA384", ""},
		{"CHACHA20", "ECDHE-ECDSA-CHACHA20-POLY1305 ECDHE-RSA-CHACHA20-POLY1305", ""},
		{"kRSA+AES+SHA", "AES128-SHA AES256-SHA", ""},
		{"RC4:!ECDHE", "RC4-SHA", ""},
		{"3DES:+3DES", "DES-CBC3-SHA ECDHE-RSA-DES-CBC3-SHA", ""},
	} {
		ids, ignored, err := ciphers(tt.list)
		if err != nil || strings.Join(names(ids), " ") != tt.want || strings.Join(ignored, " ") != tt.ignored {
			t.Errorf("%q: %q, ignored %q, %v", tt.list, names(ids), ignored, err)
		}
	}
	for _, bad := range []string{"nothing", "!ALL", "ALL:!ALL", "AES:-AES"} {
		if ids, _, err := ciphers(bad); err == nil {
			t.Errorf("%q: %q", bad, names(ids))
		}
	}
	high, _, _ := ciphers("HIGH")
	def, _, _ := ciphers("DEFAULT")
	for _, s := range suites {
		if s.insecure && slices.Contains(def, s.id) {
			t.Errorf("DEFAULT has %s", s.openssl)
		}
		if strings.Contains(s.openssl, "RC4") && slices.Contains(high, s.id) {
			t.Errorf("HIGH has %s", s.openssl)
		}
	}
}

// TestEncryptedKeys reads the forms of encrypted keys that OpenSSL writes.
func TestEncryptedKeys(t *testing.T) {
	ca := testcert.New(t)
	cert, key := ca.Issue("server")
	for _, args := range []string{
		"pkcs8 -topk8 -v2 aes-256-cbc",
		"pkcs8 -topk8 -v2 aes-128-cbc -v2prf hmacWithSHA1",
		"pkcs8 -topk8 -v2 aes-192-cbc -v2prf hmacWithSHA512 -iter 5",
		"pkcs8 -topk8 -v2 des3 -v2prf hmacWithSHA384",
		"ec -aes128",
	} {
		file := filepath.Join(t.TempDir(), "key")
		words := append(strings.Fields(args), "-in", key, "-out", file, "-passout", "pass:secret")
		if out, err := exec.Command("openssl", words...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", args, err, out)
		}
		for _, tt := range []struct{ pass, want string }{
			{"secret", ""},
			{"", "tls-key-file-pass: the private key is encrypted"},
			{"wrong", "tls-key-file-pass: it does not decrypt the private key"},
		} {
			_, _, err := Server(Options{CertFile: cert, KeyFile: file, KeyFilePass: tt.pass, AuthClients: "no"})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want) {
				t.Errorf("%s, pass %q: %v", args, tt.pass, err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("openssl", "pkcs8", "-topk8", "-scrypt", "-in", key, "-out", file, "-passout",
		"pass:secret").CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	_, _, err := Server(Options{CertFile: cert, KeyFile: file, KeyFilePass: "secret", AuthClients: "no"})
	if err == nil || !strings.Contains(err.Error(), "only PBKDF2 is known") {
		t.Errorf("scrypt: %v", err)
	}
}

// TestWrongPassphrases tries so many wrong ones that the padding of several comes out right: one of 256 does.
func TestWrongPassphrases(t *testing.T) {
	_, key := testcert.New(t).Issue("server")
	for _, args := range []string{"pkcs8 -topk8 -v2 aes-256-cbc -iter 1", "ec -aes128"} {
		file := filepath.Join(t.TempDir(), "key")
		words := append(strings.Fields(args), "-in", key, "-out", file, "-passout", "pass:secret")
		if out, err := exec.Command("openssl", words...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v %s", args, err, out)
		}
		pem := require.File(t, file)
		for i := range 3000 {
			if _, err := decryptKey(pem, fmt.Appendf(nil, "wrong%d", i)); err != errWrongPass {
				t.Fatalf("%s: passphrase wrong%d: %v", args, i, err)
			}
		}
	}
}

func FuzzDecryptPKCS8(f *testing.F) {
	// A key of openssl pkcs8 -topk8 -v2 aes-128-cbc -iter 1, without its data.
	f.Add([]byte("0\x820W0\x10\x06\x09*\x86H\x86\xf7\x0d\x01\x05\x0d"))
	if _, err := exec.LookPath("openssl"); err == nil {
		out, err := exec.Command("sh", "-c",
			"openssl ecparam -name prime256v1 -genkey -noout | openssl pkcs8 -topk8 -v2 aes-128-cbc "+
				"-iter 1 -passout pass:p").Output()
		if block, _ := pem.Decode(out); err == nil && block != nil {
			f.Add(block.Bytes)
		}
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		var key encryptedKey
		var params pbes2Params
		var kdf pbkdf2Params
		if unmarshal(der, &key) == nil && unmarshal(key.Algorithm.Parameters.FullBytes, &params) == nil &&
			unmarshal(params.KDF.Parameters.FullBytes, &kdf) == nil && kdf.Iterations > 1000 {
			return // takes its time, as asked
		}
		if plain, err := decryptPKCS8(der, []byte("p")); err == nil {
			if _, err := x509.ParsePKCS8PrivateKey(plain); err != nil {
				t.Error(err)
			}
		}
	})
}
