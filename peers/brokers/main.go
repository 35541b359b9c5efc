// What brokers do under the rules of rusm's scenarios of topics and of the store; one line of figures for each run:
//
//	go run . nats|redis SUBSCRIBERS [SECONDS]     messages of 1 KB from one publisher, delivered; published with 0
//	go run . redis-incr WRITERS [SECONDS]         increments of 10,000 keys, each synced before its answer
//
// Servers are reached over loopback TCP, as their clients reach them anywhere: the one of NATS runs in this process, Redis
// is a process beside it. CPU time is that of both ends. Both deliver at most once, so the publisher stays no further ahead
// of the slowest subscriber than it may without losing anything.
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

// A broker that one publisher and some subscribers use.
type broker interface {
	// Calls back with how many messages have come, from a goroutine of its own.
	subscribe(received func(int64))
	// Sends a burst of messages, and has them on their way.
	publish(payload []byte)
	// Waits until the server has everything.
	flush()
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: go run . nats|redis SUBSCRIBERS [SECONDS] or redis-incr WRITERS [SECONDS]")
	}
	count, err := strconv.Atoi(os.Args[2])
	if err != nil || count < 0 {
		log.Fatalf("%q is no number of subscribers or writers", os.Args[2])
	}
	seconds := 3.0
	if len(os.Args) > 3 {
		seconds, err = strconv.ParseFloat(os.Args[3], 64)
		if err != nil || seconds <= 0 {
			log.Fatalf("%q is no number of seconds", os.Args[3])
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
		log.Fatalf("there is no %q; there are nats, redis and redis-incr", os.Args[1])
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
