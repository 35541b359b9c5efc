// Runs rusm's scenarios on goroutines and channels, under the same rules; prints one line of figures per run:
//
//	go run . spawn-storm|ping-pong|ping-pong-64|fan-in|respawn|respawn-16|down|fan-out [SECONDS]
//
// Go has no processes with a pid, a mailbox or a supervisor. A channel replaces the mailbox; a recovered panic,
// reported through a channel, replaces the restart.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	warmUp    = 300 * time.Millisecond
	aliveMax  = 2_000 // spawners wait while more goroutines than this are alive
	spawners  = 2
	producers = 64
	cells     = 16
)

// A counter with its own cache line.
type cell struct {
	count atomic.Uint64
	_     [120]byte
}

var started, done [cells]cell
var over atomic.Bool

func sum(of *[cells]cell) (total uint64) {
	for i := range of {
		total += of[i].count.Load()
	}
	return
}

func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func measure(scenario string, window time.Duration) {
	time.Sleep(warmUp)
	before, cpuBefore, start := sum(&done), cpu(), time.Now()
	time.Sleep(window)
	operations, elapsed, used := sum(&done)-before, time.Since(start), cpu()-cpuBefore
	over.Store(true)
	fmt.Printf("go\t%s\tops_per_s=%.0f\tcpu_ns_per_op=%.1f\n",
		scenario, float64(operations)/elapsed.Seconds(), float64(used.Nanoseconds())/float64(max(operations, 1)))
}

func spawnStorm() {
	for spawner := range spawners {
		go func() {
			for !over.Load() {
				for range 64 {
					go func() { done[spawner].count.Add(1) }()
				}
				started[spawner].count.Add(64)
				for int64(sum(&started)-sum(&done)) > aliveMax {
					runtime.Gosched()
				}
			}
		}()
	}
}

// Counts round trips.
func pingPong(pairs int) {
	for pair := range pairs {
		pings, pongs := make(chan uint64, 1), make(chan uint64, 1)
		go func() {
			for ping := range pings {
				pongs <- ping
			}
		}()
		go func() {
			for ping := uint64(0); !over.Load(); ping++ {
				pings <- ping
				<-pongs
				done[pair%cells].count.Add(1)
			}
			close(pings)
		}()
	}
}

// Counts messages received from 64 producers through one bounded channel.
func fanIn() {
	channel := make(chan uint64, 1024)
	for range producers {
		go func() {
			for message := uint64(0); !over.Load(); message++ {
				channel <- message
			}
		}()
	}
	go func() {
		for received := uint64(1); ; received++ {
			<-channel
			if received%64 == 0 {
				done[0].count.Add(64)
			}
		}
	}()
}

func respawn(supervisors int) {
	for supervisor := range supervisors {
		go func() {
			ended := make(chan struct{}, 1)
			for !over.Load() {
				go func() {
					defer func() { _ = recover(); ended <- struct{}{} }()
					done[supervisor].count.Add(1)
					panic("crash")
				}()
				<-ended
			}
		}()
	}
}

// Starts a goroutine and waits for its end.
func down() {
	go func() {
		for !over.Load() {
			ended := make(chan struct{}, 1)
			go func() { ended <- struct{}{} }()
			<-ended
			done[0].count.Add(1)
		}
	}()
}

// Counts deliveries to 1,000 goroutines, each with its own channel.
func fanOut() {
	subscribers := make([]chan *[64]byte, 1_000)
	for i := range subscribers {
		subscribers[i] = make(chan *[64]byte, 16)
		go func() {
			for received := uint64(1); ; received++ {
				<-subscribers[i]
				if received%16 == 0 {
					done[i%cells].count.Add(16)
				}
			}
		}()
	}
	go func() {
		payload := new([64]byte)
		for !over.Load() {
			for _, subscriber := range subscribers {
				subscriber <- payload
			}
		}
	}()
}

func main() {
	seconds := 1.0
	if len(os.Args) > 2 {
		parsed, err := strconv.ParseFloat(os.Args[2], 64)
		if err != nil || parsed <= 0 {
			fmt.Fprintf(os.Stderr, "%q is not a valid number of seconds\n", os.Args[2])
			os.Exit(2)
		}
		seconds = parsed
	}
	scenarios := map[string]func(){
		"spawn-storm":  spawnStorm,
		"ping-pong":    func() { pingPong(1) },
		"ping-pong-64": func() { pingPong(64) },
		"fan-in":       fanIn,
		"respawn":      func() { respawn(1) },
		"respawn-16":   func() { respawn(16) },
		"down":         down,
		"fan-out":      fanOut,
	}
	var start func()
	if len(os.Args) > 1 {
		start = scenarios[os.Args[1]]
	}
	if start == nil {
		fmt.Fprintln(os.Stderr, "usage: go run . spawn-storm|ping-pong|ping-pong-64|fan-in|respawn|respawn-16|down|fan-out [SECONDS]")
		os.Exit(2)
	}
	start()
	measure(os.Args[1], time.Duration(seconds*float64(time.Second)))
}
