"""A program in a pseudo-terminal of 140x45, its screen, and the CPU time of processes."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from pathlib import Path

import pyte

WIDTH, HEIGHT = 140, 45


class Terminal:
    """What a program has written is kept with the time of each read, and is drawn afterwards: drawing is slow here."""

    def __init__(self, command, environment=None, typed=b""):
        self.master, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
        variables = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", **(environment or {})}
        variables.pop("SSH_CONNECTION", None)
        self.screen = pyte.Screen(WIDTH, HEIGHT)
        self.stream = pyte.ByteStream(self.screen)
        self.bytes = 0
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command, stdin=inner, stdout=inner, stderr=inner, start_new_session=True, env=variables
        )
        os.close(inner)
        if typed:
            os.write(self.master, typed)

    def read(self, seconds):
        """Returns what is written in this time, as (time, bytes)."""
        chunks, until = [], time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            if select.select([self.master], [], [], left)[0]:
                try:
                    chunk = os.read(self.master, 1 << 20)
                except OSError:  # The program has exited.
                    break
                chunks.append((time.perf_counter(), chunk))
                if b"\x1b[6n" in chunk:  # Some programs ask where the cursor is, and wait for the answer.
                    os.write(self.master, b"\x1b[1;1R")
                self.bytes += len(chunk)
        return chunks

    def draw(self, chunks):
        for _, chunk in chunks:
            self.stream.feed(chunk.replace(b"\x1b[?2026h", b"").replace(b"\x1b[?2026l", b""))

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def until(self, shows, since, limit):
        """Returns the seconds from `since` until the screen is as `shows` wants it, or None after `limit` seconds."""
        slices = 0.2
        while time.perf_counter() - since < limit:
            for at, chunk in self.read(slices):
                self.draw([(at, chunk)])
                if shows(self.lines()):
                    return at - since
            slices = min(slices * 1.5, 2)
            if self.process.poll() is not None:
                return None
        return None

    def press(self, key):
        """Presses a key in a pause of the output; returns when."""
        self.draw(self.read(0.05))
        pressed = time.perf_counter()
        os.write(self.master, key)
        return pressed

    def close(self, keys=b"q"):
        try:
            os.write(self.master, keys)
            self.read(0.3)
        except OSError:
            pass
        end(self.process)
        os.close(self.master)


def end(process):
    """Ends a program that was started here, and waits for it."""
    for stop in [process.terminate, process.kill]:
        if process.poll() is None:
            stop()
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                continue
    return process.wait()


def family(pid):
    """This process and all that it has started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*"):
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            found += family(int(child))
    return found


def cpu_ns(pids):
    """CPU time of these processes, including their ended threads."""
    total = 0
    for pid in pids:
        try:
            total += time.clock_gettime_ns((~pid << 3) | 2)
        except OSError:
            pass
    return total


def rss_bytes(pids):
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return pages * os.sysconf("SC_PAGE_SIZE")
