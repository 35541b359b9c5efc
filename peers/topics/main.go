// What NATS does with the messages of rusm's topic scenarios: `go run . [seconds]`.
//
// The server runs in this process and is reached over loopback TCP, as its clients reach it anywhere. It delivers at most
// once; a subscriber that is too slow loses messages, and those are told.
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const payloadBytes = 1024

func main() {
	seconds := 3.0
	if len(os.Args) > 1 {
		parsed, err := strconv.ParseFloat(os.Args[1], 64)
		if err != nil || parsed <= 0 {
			log.Fatalf("%q is no number of seconds", os.Args[1])
		}
		seconds = parsed
	}
	node, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1})
	if err != nil {
		log.Fatal(err)
	}
	node.Start()
	defer node.Shutdown()
	if !node.ReadyForConnections(10 * time.Second) {
		log.Fatal("the server did not start within 10 s")
	}
	for _, subscribers := range []int{0, 1, 50} {
		run(node.ClientURL(), subscribers, time.Duration(seconds*float64(time.Second)))
	}
}

func connect(url string) *nats.Conn {
	connection, err := nats.Connect(url)
	if err != nil {
		log.Fatal(err)
	}
	return connection
}

// Publishes at full speed, no further ahead of the slowest subscriber than it may be without losing anything.
func run(url string, subscribers int, length time.Duration) {
	const ahead = 8192
	counts := make([]atomic.Int64, subscribers)
	for i := range counts {
		connection, count := connect(url), &counts[i]
		defer connection.Close()
		subscription, err := connection.Subscribe("topic", func(*nats.Msg) { count.Add(1) })
		if err != nil {
			log.Fatal(err)
		}
		if err := subscription.SetPendingLimits(-1, -1); err != nil {
			log.Fatal(err)
		}
		if err := connection.Flush(); err != nil {
			log.Fatal(err)
		}
	}
	publisher := connect(url)
	defer publisher.Close()
	payload := make([]byte, payloadBytes)
	var published int64
	started := time.Now()
	for time.Since(started) < length {
		for range 256 {
			if err := publisher.Publish("topic", payload); err != nil {
				log.Fatal(err)
			}
		}
		published += 256
		for i := range counts {
			for published-counts[i].Load() > ahead {
				time.Sleep(20 * time.Microsecond)
			}
		}
	}
	if err := publisher.Flush(); err != nil {
		log.Fatal(err)
	}
	took := time.Since(started).Seconds()
	deliveries := int64(0)
	for i := range counts {
		deliveries += counts[i].Load()
	}
	fmt.Printf("nats 1 to %d: %.0f published/s, %.0f delivered/s\n", subscribers,
		float64(published)/took, float64(deliveries)/took)
}
