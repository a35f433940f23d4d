"""Between tierfs and the NFS server: passes everything on, and counts what it sees (RFC 5531, RFC 1813)."""

import collections
import contextlib
import dataclasses
import socket
import struct
import threading
import time

NFS_PROGRAM = 100003
READ = 6
NAMES = {0: "NULL", 1: "GETATTR", 2: "SETATTR", 3: "LOOKUP", 4: "ACCESS", 5: "READLINK", READ: "READ", 7: "WRITE", 8: "CREATE",
         9: "MKDIR", 10: "SYMLINK", 11: "MKNOD", 12: "REMOVE", 13: "RMDIR", 14: "RENAME", 15: "LINK", 16: "READDIR",
         17: "READDIRPLUS", 18: "FSSTAT", 19: "FSINFO", 20: "PATHCONF", 21: "COMMIT"}
HEAD = 512  # bytes of a record that are looked at
ATTRIBUTES = 84  # bytes of fattr3
PIECE = 1 << 20


@dataclasses.dataclass
class Counted:
    calls: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # by the names of RFC 1813
    read_bytes: int = 0  # that READ brought
    failed_reads: int = 0

    @property
    def reads(self):
        return self.calls["READ"]

    def others(self, name="READ"):
        """How often each was called but for this one, as a text; empty when there were none."""
        return ", ".join(f"{count} {which}" for which, count in sorted(self.calls.items()) if which != name)


class Relay:
    """Listens on `port` of 127.0.0.1 for the server on `upstream`. A call counts when it has come from the client, the bytes
    of a READ when they have come from the server."""

    def __init__(self, port, upstream):
        self.upstream, self.port = upstream, port
        self._counted, self._lock, self._open = Counted(), threading.Lock(), set()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def mark(self, patience=0.2):
        """What was counted until now. Waits so many seconds for what is on its way."""
        time.sleep(patience)
        with self._lock:
            now = self._counted
            return Counted(collections.Counter(now.calls), now.read_bytes, now.failed_reads)

    def since(self, mark, patience=0.2):
        now = self.mark(patience)
        return Counted(now.calls - mark.calls, now.read_bytes - mark.read_bytes, now.failed_reads - mark.failed_reads)

    def _accept(self):
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.upstream))
        except OSError:
            client.close()
            return
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open |= {client, server}
        reading = set()  # the numbers of READs without an answer
        up = threading.Thread(target=pass_on, args=(client, server, lambda head: self._called(head, reading)), daemon=True)
        up.start()
        pass_on(server, client, lambda head: self._answered(head, reading))
        up.join()
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()

    def _called(self, head, reading):
        program, _, procedure = struct.unpack_from(">III", head, 12)
        with self._lock:
            if program != NFS_PROGRAM:
                self._counted.calls[f"program {program}"] += 1
                return
            self._counted.calls[NAMES.get(procedure, f"procedure {procedure}")] += 1
            if procedure == READ:
                reading.add(head[:4])

    def _answered(self, head, reading):
        with self._lock:
            if head[:4] not in reading:
                return
            reading.discard(head[:4])
            count = bytes_of_read(head)
            if count is None:
                self._counted.failed_reads += 1
            else:
                self._counted.read_bytes += count


def bytes_of_read(reply):
    """How many the answer to a READ brings; None for an error."""
    verifier, = struct.unpack_from(">I", reply, 16)
    at = 20 + (verifier + 3) // 4 * 4
    if struct.unpack_from(">I", reply, 8)[0] != 0 or struct.unpack_from(">II", reply, at) != (0, 0):
        return None
    has_attributes, = struct.unpack_from(">I", reply, at + 8)
    return struct.unpack_from(">I", reply, at + 12 + (ATTRIBUTES if has_attributes else 0))[0]


def pass_on(source, target, see):
    """Passes records on until one side ends, then ends both. see(the first bytes) of each record, before it goes on."""
    first = True
    with contextlib.suppress(OSError, EOFError):
        while True:
            mark = exactly(source, 4)
            left = struct.unpack(">I", mark)[0]
            last, left = bool(left >> 31), left & 0x7FFFFFFF
            head = exactly(source, min(left, HEAD))
            if first and len(head) >= 24:
                see(head)
            target.sendall(mark + head)
            left -= len(head)
            while left:
                piece = source.recv(min(left, PIECE))
                if not piece:
                    raise EOFError
                target.sendall(piece)
                left -= len(piece)
            first = last
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def exactly(peer, count):
    data = peer.recv(count)
    while len(data) < count:
        more = peer.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data
