package main

import (
	"log"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	client "github.com/nats-io/nats.go"
)

// A broker with one connection per subscriber and one for the publisher.
type nats struct {
	address   string
	publisher *client.Conn
}

func startNats() (address string, stop func()) {
	node, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1})
	if err != nil {
		log.Fatal(err)
	}
	node.Start()
	if !node.ReadyForConnections(10 * time.Second) {
		log.Fatal("the server did not start within 10 s")
	}
	return node.ClientURL(), node.Shutdown
}

func (n *nats) connect() *client.Conn {
	connection, err := client.Connect(n.address)
	if err != nil {
		log.Fatal(err)
	}
	return connection
}

func (n *nats) subscribe(received func(int64)) {
	connection := n.connect()
	subscription, err := connection.Subscribe("topic", func(*client.Msg) { received(1) })
	if err == nil {
		err = subscription.SetPendingLimits(-1, -1)
	}
	if err == nil {
		err = connection.Flush()
	}
	if err != nil {
		log.Fatal(err)
	}
}

func (n *nats) publish(payload []byte) {
	if n.publisher == nil {
		n.publisher = n.connect()
	}
	for range burst {
		if err := n.publisher.Publish("topic", payload); err != nil {
			log.Fatal(err)
		}
	}
}

func (n *nats) flush() {
	if err := n.publisher.Flush(); err != nil {
		log.Fatal(err)
	}
}
