// An MQTT 5 broker for tests: mochi-mqtt with every kind of listener it has. In memory, anybody may do anything.
package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/hooks/auth"
	"github.com/mochi-mqtt/server/v2/listeners"
)

func main() {
	tcp := flag.String("tcp", "", "address of the TCP listener")
	secure := flag.String("tls", "", "address of the TLS listener")
	ws := flag.String("ws", "", "address of the WebSocket listener")
	wss := flag.String("wss", "", "address of the WebSocket listener over TLS")
	unix := flag.String("unix", "", "path of the Unix socket")
	certificate := flag.String("cert", "", "PEM file of the server's certificate")
	key := flag.String("key", "", "PEM file of its key")
	inherit := flag.Bool("inherit", false, "put the user properties of a PUBLISH into its acknowledgement, as mochi does by itself")
	clientCA := flag.String("client-ca", "", "PEM file of the CA that must have signed client certificates")
	flag.Parse()

	capabilities := mqtt.NewDefaultServerCapabilities()
	// Without this a PUBLISH with user properties gets a PUBACK with reason code 0x01 or a PUBREC with 0x02, which MQTT 5
	// does not know there [MQTT-3.4.2-1].
	capabilities.Compatibilities.NoInheritedPropertiesOnAck = !*inherit
	server := mqtt.New(&mqtt.Options{
		Capabilities: capabilities,
		Logger:       slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelInfo})),
	})
	check(server.AddHook(new(auth.AllowHook), nil))
	var config *tls.Config
	if *secure != "" || *wss != "" {
		config = tlsConfig(*certificate, *key, *clientCA)
	}
	if *tcp != "" {
		check(server.AddListener(listeners.NewTCP(listeners.Config{ID: "tcp", Address: *tcp})))
	}
	if *secure != "" {
		check(server.AddListener(listeners.NewTCP(listeners.Config{ID: "tls", Address: *secure, TLSConfig: config})))
	}
	if *ws != "" {
		check(server.AddListener(listeners.NewWebsocket(listeners.Config{ID: "ws", Address: *ws})))
	}
	if *wss != "" {
		check(server.AddListener(listeners.NewWebsocket(listeners.Config{ID: "wss", Address: *wss, TLSConfig: config})))
	}
	if *unix != "" {
		check(server.AddListener(listeners.NewUnixSock(listeners.Config{ID: "unix", Address: *unix})))
	}
	check(server.Serve())

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
	check(server.Close())
}

func tlsConfig(certificate, key, clientCA string) *tls.Config {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	check(err)
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if clientCA == "" {
		return config
	}
	pem, err := os.ReadFile(clientCA)
	check(err)
	config.ClientCAs = x509.NewCertPool()
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		check(errors.New("no certificate in " + clientCA))
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
