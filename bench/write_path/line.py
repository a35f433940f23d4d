"""A line to a server that carries so many bytes a second each way, over all connections, and takes its time for each request.
Run as a program, so that it takes no turn from who measures:

  line.py PORT UPSTREAM BYTES_PER_S DELAY_MS        both ports of 127.0.0.1; ends with its standard input
"""

import contextlib
import socket
import sys
import threading
import time

PIECE = 128 << 10
QUIET_S = 0.005  # after which what comes is another request


class Way:
    """One direction of all connections."""

    def __init__(self, rate):
        self.rate, self.lock, self.free_at = rate, threading.Lock(), 0.0

    def take_turn(self, size):
        with self.lock:
            begin = max(self.free_at, time.monotonic())
            self.free_at = end = begin + size / self.rate
        time.sleep(max(0.0, end - time.monotonic()))


def pass_on(source, target, way, delay):
    heard = 0.0
    with contextlib.suppress(OSError):
        while piece := source.recv(PIECE):
            if delay and time.monotonic() - heard > QUIET_S:
                time.sleep(delay)
            way.take_turn(len(piece))
            target.sendall(piece)
            heard = time.monotonic()
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def serve(listener, upstream, up, down, delay):
    while True:
        client = listener.accept()[0]
        server = socket.create_connection(("127.0.0.1", upstream))
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=pass_on, args=(client, server, up, delay), daemon=True).start()
        threading.Thread(target=pass_on, args=(server, client, down, 0), daemon=True).start()


def main(port, upstream, rate, delay_ms):
    listener = socket.create_server(("127.0.0.1", port), backlog=256)
    threading.Thread(target=serve, args=(listener, upstream, Way(rate), Way(rate), delay_ms / 1000), daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
