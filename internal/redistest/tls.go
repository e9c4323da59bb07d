package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// StartTLS runs a server that speaks only TLS, with a certificate for
// 127.0.0.1 and "localhost" made for this test; caFile is the PEM file of the
// certificate to trust.
func StartTLS(t testing.TB, config ...string) (s *Server, caFile string) {
	t.Helper()
	k := newKeyring(t)
	k.make()
	return start(t, k.client(false), append(k.directives("no"), config...)...), k.CA
}

// A Keyring is the certificates of one server that asks its clients for
// theirs: the paths of what a client needs, as PEM files.
type Keyring struct {
	CA, Cert, Key string

	t      testing.TB
	dir    string
	server *Server
}

// StartMutualTLS is StartTLS with clients that must show a certificate of the
// server's own authority.
func StartMutualTLS(t testing.TB, config ...string) (*Server, *Keyring) {
	t.Helper()
	k := newKeyring(t)
	k.make()
	k.server = start(t, k.client(true), append(k.directives("yes"), config...)...)
	return k.server, k
}

// Rotate replaces the authority and every certificate, at the server and in
// the files. Connections that are open stay; new ones need the new files.
func (k *Keyring) Rotate() {
	k.t.Helper()
	k.make()
	k.server.Do("CONFIG", "SET", "tls-cert-file", k.path("server.pem"), "tls-key-file", k.path("server.key"), "tls-ca-cert-file", k.CA)
	k.server.CA = k.client(true)
}

func newKeyring(t testing.TB) *Keyring {
	k := &Keyring{t: t, dir: t.TempDir()}
	k.CA, k.Cert, k.Key = k.path("ca.pem"), k.path("client.pem"), k.path("client.key")
	return k
}

func (k *Keyring) path(name string) string { return filepath.Join(k.dir, name) }

func (k *Keyring) directives(clients string) []string {
	return []string{
		"tls-cert-file " + k.path("server.pem"), "tls-key-file " + k.path("server.key"),
		"tls-ca-cert-file " + k.CA, "tls-auth-clients " + clients,
	}
}

// client is the configuration of the tests' own connections.
func (k *Keyring) client(shows bool) *tls.Config {
	k.t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}
	ca, err := os.ReadFile(k.CA)
	if err != nil || !c.RootCAs.AppendCertsFromPEM(ca) {
		k.t.Fatalf("redistest: no authority: %v", err)
	}
	if shows {
		pair, err := tls.LoadX509KeyPair(k.Cert, k.Key)
		if err != nil {
			k.t.Fatal(err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// make writes a new authority and what it signed.
func (k *Keyring) make() {
	k.t.Helper()
	ca, caKey := k.certificate(k.CA, k.path("ca.key"), nil, nil)
	k.certificate(k.path("server.pem"), k.path("server.key"), ca, caKey)
	k.certificate(k.Cert, k.Key, ca, caKey)
}

// certificate writes one certificate and its key: an authority if it has none.
func (k *Keyring) certificate(certFile, keyFile string, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	k.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		k.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "redistest"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	if ca == nil {
		template.Subject.CommonName = "redistest authority " + template.SerialNumber.String()
		template.KeyUsage |= x509.KeyUsageCertSign
		template.IsCA, template.BasicConstraintsValid = true, true
		ca, caKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey)
	if err != nil {
		k.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		k.t.Fatal(err)
	}
	writePEM(k.t, certFile, "CERTIFICATE", der)
	writePEM(k.t, keyFile, "PRIVATE KEY", secret)
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		k.t.Fatal(err)
	}
	return parsed, key
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
