package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// Client makes the configuration of a client that connects to another server of the same kind, such as a replica:
// with this server's certificate, if it has one. The other one's certificate must be signed by one of the
// authorities, if there are any; as in Redis its name does not matter. Errors are of type [*Error].
func Client(o Options) (*tls.Config, error) {
	c := &tls.Config{InsecureSkipVerify: true} // see VerifyConnection
	var err error
	if c.MinVersion, c.MaxVersion, err = protocols(o.Protocols); err != nil {
		return nil, at("tls-protocols", err)
	}
	if o.CertFile != "" {
		if err := certificate(c, &o); err != nil {
			return nil, err
		}
	}
	if o.CACertFile == "" && o.CACertDir == "" {
		return c, nil
	}
	o.AuthClients = "yes"
	if err := clients(c, &o); err != nil {
		return nil, err
	}
	roots := c.ClientCAs
	c.ClientCAs, c.ClientAuth = nil, tls.NoClientCert
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the other server has shown no certificate")
		}
		v := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool()}
		for _, cert := range s.PeerCertificates[1:] {
			v.Intermediates.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(v)
		return err
	}
	return c, nil
}
