// Runs rusm's scenarios of topics and of the store on brokers, under the same rules. Prints one line per run:
//
//	go run . nats|redis SUBSCRIBERS [SECONDS]     delivered messages of 1 KB from one publisher; published messages for 0
//	go run . redis-incr WRITERS [SECONDS]         increments of 10,000 keys, each synced before its reply
//
// Clients connect to the servers over loopback TCP. The NATS server runs in this process, the Redis server in another.
// CPU time includes server and clients. Both brokers deliver at most once, so the publisher limits its lead over the
// slowest subscriber such that no message is lost.
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	payloadBytes = 1024
	ahead        = 8192 // messages
	burst        = 256
)

// A broker, used by one publisher and several subscribers.
type broker interface {
	// Calls `received` with the number of messages that have arrived, from a separate goroutine.
	subscribe(received func(int64))
	// Sends a burst of messages.
	publish(payload []byte)
	// Waits until the server has received all messages.
	flush()
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: go run . nats|redis SUBSCRIBERS [SECONDS] or redis-incr WRITERS [SECONDS]")
	}
	count, err := strconv.Atoi(os.Args[2])
	if err != nil || count < 0 {
		log.Fatalf("%q is not a valid number of subscribers or writers", os.Args[2])
	}
	seconds := 3.0
	if len(os.Args) > 3 {
		seconds, err = strconv.ParseFloat(os.Args[3], 64)
		if err != nil || seconds <= 0 {
			log.Fatalf("%q is not a valid number of seconds", os.Args[3])
		}
	}
	window := time.Duration(seconds * float64(time.Second))
	switch os.Args[1] {
	case "nats":
		address, stop := startNats()
		defer stop()
		run("nats", &nats{address: address}, count, window, cpuOfThis)
	case "redis":
		server := startRedis("--save", "")
		defer server.stop()
		run("redis", &redis{address: server.address}, count, window, server.cpu)
	case "redis-incr":
		server := startRedis("--save", "", "--appendonly", "yes", "--appendfsync", "always")
		defer server.stop()
		increments(server, count, window)
	default:
		log.Fatalf("unknown system %q: use nats, redis or redis-incr", os.Args[1])
	}
}

func run(name string, broker broker, subscribers int, window time.Duration, cpu func() time.Duration) {
	counts := make([]atomic.Int64, subscribers)
	for i := range counts {
		broker.subscribe(func(more int64) { counts[i].Add(more) })
	}
	payload := make([]byte, payloadBytes)
	published := int64(0)
	publishFor := func(length time.Duration) {
		for started := time.Now(); time.Since(started) < length; {
			broker.publish(payload)
			published += burst
			for i := range counts {
				for published-counts[i].Load() > ahead {
					time.Sleep(20 * time.Microsecond)
				}
			}
		}
		broker.flush()
	}
	publishFor(300 * time.Millisecond)
	total := func() (sum int64) {
		for i := range counts {
			sum += counts[i].Load()
		}
		return
	}
	delivered, before, cpuBefore, started := total(), published, cpu(), time.Now()
	publishFor(window)
	operations := published - before
	if subscribers > 0 {
		operations = total() - delivered
	}
	figures(fmt.Sprintf("%s\t1 to %d", name, subscribers), operations, time.Since(started), cpu()-cpuBefore)
}

func figures(what string, operations int64, took, used time.Duration) {
	fmt.Printf("%s\tops_per_s=%.0f\tcpu_ns_per_op=%.1f\n",
		what, float64(operations)/took.Seconds(), float64(used.Nanoseconds())/float64(max(operations, 1)))
}

func cpuOfThis() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
