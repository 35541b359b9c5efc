package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const keys = 10_000

type redisServer struct {
	address string
	process *exec.Cmd
	folder  string
}

// Starts a separate server in a temporary folder.
func startRedis(options ...string) *redisServer {
	folder, err := os.MkdirTemp("", "peers-redis-")
	if err != nil {
		log.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	_, port, _ := net.SplitHostPort(address)
	process := exec.Command("redis-server", append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", folder}, options...)...)
	if err := process.Start(); err != nil {
		log.Fatalf("redis-server does not start: %v", err)
	}
	s := &redisServer{address, process, folder}
	for started := time.Now(); time.Since(started) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		if connection, err := net.Dial("tcp", address); err == nil {
			connection.Close()
			return s
		}
	}
	s.stop()
	log.Fatal("the server did not start within 10 s")
	return nil
}

func (s *redisServer) stop() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
	_ = os.RemoveAll(s.folder)
}

// Returns the CPU time of the server and of this process, in steps of 10 ms.
func (s *redisServer) cpu() time.Duration {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.process.Process.Pid))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	ticks := 0
	for _, field := range fields[11:13] {
		more, _ := strconv.Atoi(field)
		ticks += more
	}
	return cpuOfThis() + time.Duration(ticks)*10*time.Millisecond
}

// A broker with one connection per subscriber and one for the publisher, which sends a burst at a time.
type redis struct {
	address   string
	publisher *session
}

type session struct {
	connection net.Conn
	reader     *bufio.Reader
}

func open(address string) *session {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	return &session{connection, bufio.NewReaderSize(connection, 256<<10)}
}

func command(words ...[]byte) []byte {
	text := fmt.Appendf(nil, "*%d\r\n", len(words))
	for _, word := range words {
		text = append(fmt.Appendf(text, "$%d\r\n", len(word)), word...)
		text = append(text, "\r\n"...)
	}
	return text
}

func (s *session) write(text []byte) {
	if _, err := s.connection.Write(text); err != nil {
		log.Fatal(err)
	}
}

// Reads a one-line reply; an error reply ends the program.
func (s *session) answer() {
	line, err := s.reader.ReadSlice('\n')
	if err != nil {
		log.Fatal(err)
	}
	if line[0] == '-' {
		log.Fatalf("redis: %s", line)
	}
}

func (r *redis) subscribe(received func(int64)) {
	s := open(r.address)
	s.write(command([]byte("SUBSCRIBE"), []byte("topic")))
	for range 6 {
		s.answer()
	}
	// The data received for each message has a constant length, so counting bytes is enough.
	each := int64(len(command([]byte("message"), []byte("topic"), make([]byte, payloadBytes))))
	go func() {
		buffer, left := make([]byte, 256<<10), int64(0)
		for {
			more, err := s.reader.Read(buffer)
			if err == io.EOF {
				return
			}
			if err != nil {
				log.Fatal(err)
			}
			left += int64(more)
			received(left / each)
			left %= each
		}
	}()
}

func (r *redis) publish(payload []byte) {
	if r.publisher == nil {
		r.publisher = open(r.address)
	}
	r.publisher.write(bytes.Repeat(command([]byte("PUBLISH"), []byte("topic"), payload), burst))
	for range burst {
		r.publisher.answer()
	}
}

func (r *redis) flush() {}

// Each writer waits for a reply before its next increment; the server syncs concurrent increments together.
func increments(server *redisServer, writers int, window time.Duration) {
	var over atomic.Bool
	var done atomic.Int64
	var all sync.WaitGroup
	for range writers {
		s := open(server.address)
		all.Go(func() {
			for !over.Load() {
				s.write(command([]byte("INCR"), strconv.AppendInt(nil, rand.Int64N(keys), 10)))
				s.answer()
				done.Add(1)
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	before, cpuBefore, started := done.Load(), server.cpu(), time.Now()
	time.Sleep(window)
	operations, took, used := done.Load()-before, time.Since(started), server.cpu()-cpuBefore
	over.Store(true)
	all.Wait()
	figures(fmt.Sprintf("redis, appendfsync always\t%d writers", writers), operations, took, used)
}
