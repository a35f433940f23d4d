#!/usr/bin/python3
"""A portmapper for tests: rpcbind_stub.py SOCKET ADDRESS PORT (0: on the socket alone)

Serves what nfs-ganesha asks (RPCB versions 3 and 4: SET, UNSET, GETADDR, DUMP, on the UNIX socket) and what NFS clients ask
(version 2: GETPORT, over TCP). Debian's own rpcbind binds to every address, and ends when it is told not to."""

import os
import socket
import struct
import sys
import threading

registered = {}  # (program, version, netid) -> address in rpcbind's writing


def opaque(data):
    return struct.pack(">I", len(data)) + data + b"\0" * (-len(data) % 4)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def number(self):
        value, = struct.unpack_from(">I", self.data, self.at)
        self.at += 4
        return value

    def opaque(self):
        size = self.number()
        value = self.data[self.at:self.at + size]
        self.at += size + -size % 4
        return value


def port_of(program, version):
    for netid in (b"tcp", b"tcp6"):
        if (program, version, netid) in registered:
            high, low = registered[program, version, netid].split(b".")[-2:]
            return int(high) * 256 + int(low)
    return 0


def answer_rpcb(procedure, call):
    """RFC 1833, 2.2."""
    if procedure in (1, 2, 3):
        program, version = call.number(), call.number()
        netid, address = call.opaque(), call.opaque()
        if procedure == 3:
            return opaque(registered.get((program, version, netid), b""))
        if procedure == 1:
            registered[program, version, netid] = address
        else:
            for key in [key for key in registered if key[:2] == (program, version) and netid in (b"", key[2])]:
                del registered[key]
        return struct.pack(">I", 1)
    if procedure == 4:
        return b"".join(struct.pack(">III", 1, program, version) + opaque(netid) + opaque(address) + opaque(b"superuser")
                        for (program, version, netid), address in registered.items()) + struct.pack(">I", 0)
    return None


def answer(message):
    call = Reader(message)
    xid, _, _, _, version, procedure = (call.number() for _ in range(6))
    for _ in range(2):  # credential and verifier
        call.number()
        call.opaque()
    result = None
    if procedure == 0:
        result = b""
    elif version in (3, 4):
        result = answer_rpcb(procedure, call)
    elif version == 2 and procedure == 3:
        result = struct.pack(">I", port_of(call.number(), call.number()))
    return struct.pack(">IIIIII", xid, 1, 0, 0, 0, 3 if result is None else 0) + (result or b"")


def exactly(peer, count):
    data = b""
    while len(data) < count:
        more = peer.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def serve(peer):
    with peer:
        try:
            while True:
                message, last = b"", False
                while not last:
                    mark, = struct.unpack(">I", exactly(peer, 4))
                    last = bool(mark >> 31)
                    message += exactly(peer, mark & 0x7FFFFFFF)
                reply = answer(message)
                peer.sendall(struct.pack(">I", 0x80000000 | len(reply)) + reply)
        except (EOFError, OSError, struct.error):
            pass


def accept(listener):
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


def main():
    path, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    folder, name = os.path.split(path)
    os.chdir(folder)  # an address holds 107 bytes (unix(7)); folders of tests are longer
    if os.path.exists(name):
        os.unlink(name)
    listeners = []
    if port:
        listeners.append(socket.socket())
        listeners[0].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listeners[0].bind((address, port))
    local = socket.socket(socket.AF_UNIX)
    local.bind(name)
    for one in [*listeners, local]:
        one.listen(64)
    for one in listeners:
        threading.Thread(target=accept, args=(one,), daemon=True).start()
    accept(local)


if __name__ == "__main__":
    main()
