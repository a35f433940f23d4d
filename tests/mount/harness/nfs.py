"""nfs-ganesha for the mount tests, and a relay that spoils its replies."""

import contextlib
import os
import shutil
import signal
import socket
import struct
import threading
from pathlib import Path

from . import processes
from .servers import SCRIPTS, free_ports


def missing():
    """What nfs-ganesha lacks here, or an empty text."""
    lacking = [] if shutil.which("ganesha.nfsd") else ["nfs-ganesha"]
    if not list(Path("/usr/lib").glob("**/ganesha/libfsalvfs.so")):
        lacking.append("nfs-ganesha-vfs")
    return ", ".join(lacking)


class Ganesha:
    """Exports .data as /export, as /squashed (root is nobody) and as /readonly. remembers=False: it asks its file system for
    each listing, for who changes names below .data by hand in between."""

    def __init__(self, folder, address="127.0.0.1", portmap=False, remembers=True):
        self.folder, self.address = Path(folder), address
        self.port = free_ports(2)
        self.env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PORTMAP": "1" if portmap else "0",
                    **({} if remembers else {"DIR_CHUNK": "0"})}
        self.data = self.folder / "export"
        self.data.mkdir(parents=True)
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self):
        processes.check([SCRIPTS / "ganesha.sh", "start", self.folder, self.port, self.address], env=self.env, timeout=100)

    def stop(self):
        self.resume()
        processes.check([SCRIPTS / "ganesha.sh", "stop", self.folder], env=self.env, timeout=60)

    def kill(self):
        """As a crash of the server; start() makes it serve again."""
        pid = self._pid()
        os.kill(pid, signal.SIGKILL)
        # With its last thread: until then the file with its id is locked, and the next one would end at once.
        processes.wait_until(lambda: not processes.alive(pid), timeout=60, what="the killed server is gone")
        (self.folder / "ganesha.pid").unlink()

    def pause(self):
        """It keeps its connections and says nothing, until resume()."""
        os.kill(self._pid(), signal.SIGSTOP)

    def resume(self):
        with contextlib.suppress(OSError):
            os.kill(self._pid(), signal.SIGCONT)

    def _pid(self):
        return int((self.folder / "ganesha.pid").read_text())

    def url(self, path, export="export", port=None, **options):
        """nfs:// URL of a path of the export, with the ports in it."""
        options = {"nfsport": port or self.port, "mountport": self.port + 1, **options}
        words = "&".join(f"{key}={value}" for key, value in options.items() if value)
        return f"nfs://{self.address}/{export}{'/' if path else ''}{path}?{words}"


NOT_SUPPORTED = 10004


class Relay:
    """Between client and server. `spoil` is called with the number (from 0) of each record of replies, without its mark,
    and returns what is passed on instead, or None: the connection ends after half of the record. heard: a list that
    gets (procedure, uid, gid, further groups) of each NFS call, or None. lacking: procedures that are answered with
    NFS3ERR_NOTSUPP. lost: procedures whose calls do not reach the server. unheard: those whose answers are swallowed.
    meanwhile: {procedure: call}; the call is made before the next call of that procedure is passed on, once."""

    def __init__(self, upstream, spoil=None):
        self.upstream, self.spoil = upstream, spoil
        self.records, self.heard, self.lacking, self._unanswered = 0, None, (), set()
        self.lost, self.unheard, self._swallowed = (), (), set()
        self.meanwhile = {}
        self._lock, self._open = threading.Lock(), set()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()
        self.drop()

    def drop(self):
        """Ends all connections."""
        with self._lock:
            for one in self._open:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

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
        with self._lock:
            self._open |= {client, server}
        up = threading.Thread(target=self._pass_up, args=(client, server), daemon=True)
        up.start()
        with contextlib.suppress(OSError, EOFError):
            self._pass_down(server, client)
        for one in (client, server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        up.join()
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()

    def _pass_up(self, client, server):
        with contextlib.suppress(OSError, EOFError):
            while True:
                mark = _exactly(client, 4)
                record = _exactly(client, struct.unpack(">I", mark)[0] & 0x7FFFFFFF)
                heard = self.heard
                if heard is not None:
                    heard.append(_caller(record))
                self.meanwhile.pop(_caller(record)[0], lambda: None)()
                if _caller(record)[0] in self.lacking:
                    self._unanswered.add(record[:4])
                if _caller(record)[0] in self.lost:
                    continue
                if _caller(record)[0] in self.unheard:
                    self._swallowed.add(record[:4])
                server.sendall(mark + record)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _pass_down(self, server, client):
        while True:
            record, last = b"", False
            while not last:
                mark, = struct.unpack(">I", _exactly(server, 4))
                last = bool(mark >> 31)
                record += _exactly(server, mark & 0x7FFFFFFF)
            if record[:4] in self._swallowed:
                continue
            with self._lock:
                number, self.records = self.records, self.records + 1
            if record[:4] in self._unanswered:  # accepted, no verifier, success; the status, no attributes
                record = struct.pack(">4sIIIIIII", record[:4], 1, 0, 0, 0, 0, NOT_SUPPORTED, 0)
            spoilt = self.spoil(number, record) if self.spoil else record
            if spoilt is None:
                client.sendall(struct.pack(">I", 0x80000000 | len(record)) + record[:len(record) // 2])
                return
            client.sendall(struct.pack(">I", 0x80000000 | len(record)) + spoilt)


def _caller(call):
    """Procedure and AUTH_SYS ids of a call (RFC 5531, 8.2 and 9; the name of the machine is filled up to four bytes)."""
    procedure, name = struct.unpack_from(">I", call, 20)[0], struct.unpack_from(">I", call, 36)[0]
    uid, gid, count = struct.unpack_from(">III", call, 40 + (name + 3) // 4 * 4)
    return procedure, uid, gid, struct.unpack_from(f">{count}I", call, 52 + (name + 3) // 4 * 4)


def _exactly(peer, count):
    data = bytearray()
    while len(data) < count:
        more = peer.recv(min(count - len(data), 1 << 20))
        if not more:
            raise EOFError
        data += more
    return bytes(data)
