#!/usr/bin/python3
"""A file system of one file, "file", that says who asks for its extended attributes. asked.py MOUNTPOINT: serves until it
is unmounted, and prints a line [user, opcode, attribute] for each request. It has the attribute system.stub,
which user 4000 alone may read and set, and user.plain."""

import ctypes
import errno
import json
import os
import struct
import sys

HEADER = struct.Struct("<IIQQIIIHH")
OWNER = 4000


def attributes(node):
    mode, links = (0o40777, 2) if node == 1 else (0o100666, 1)
    return struct.pack("<QQQQQQIIIIIIIIII", node, 0, 0, 0, 0, 0, 0, 0, 0, mode, links, 0, 0, 0, 4096, 0)


class Asked:
    def __init__(self, place):
        self.device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.device},rootmode=40000,user_id=0,group_id=0,allow_other"
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"asked", os.fsencode(place), b"fuse.asked", 0, options.encode()) != 0:
            raise OSError(ctypes.get_errno(), "mount")
        self.value = b"made"

    def sized(self, wanted, value):
        if wanted == 0:
            return struct.pack("<II", len(value), 0)
        return value if wanted >= len(value) else errno.ERANGE

    def xattr(self, opcode, uid, body):
        name = body[8:].split(b"\0")[0].decode() if opcode != 23 else ""
        print(json.dumps([uid, opcode, name]), flush=True)
        if opcode == 23:
            return self.sized(struct.unpack_from("<I", body)[0], b"user.plain\0system.stub\0" if uid in (0, OWNER) else b"user.plain\0")
        if name == "user.plain":
            return self.sized(struct.unpack_from("<I", body)[0], b"plain") if opcode == 22 else b""
        if name != "system.stub":
            return errno.EOPNOTSUPP
        if uid not in (0, OWNER):
            return errno.EPERM
        if opcode == 22:
            return self.sized(struct.unpack_from("<I", body)[0], self.value)
        if opcode == 21:
            self.value = body[8 + len(name) + 1:]
        return b""

    def answer(self, opcode, node, uid, body):
        """Bytes, an errno, or None: no reply is due."""
        if opcode in (2, 36, 42):  # FORGET, INTERRUPT, BATCH_FORGET
            return None
        if opcode == 26:  # INIT
            return struct.pack("<IIIIHHIIHHI7I", 7, 31, 65536, 0, 12, 9, 65536, 1, 0, 0, 0, *[0] * 7)
        if opcode == 1:  # LOOKUP
            return struct.pack("<QQQQII", 2, 1, 0, 0, 0, 0) + attributes(2) if body == b"file\0" else errno.ENOENT
        if opcode in (3, 4):  # GETATTR, SETATTR
            return struct.pack("<QII", 0, 0, 0) + attributes(node)
        if opcode in (14, 27):  # OPEN, OPENDIR
            return struct.pack("<QII", 1, 0, 0)
        if opcode == 17:  # STATFS
            return struct.pack("<QQQQQIIII6I", 1 << 20, 1 << 19, 1 << 19, 1, 1, 4096, 255, 4096, 0, *[0] * 6)
        if opcode in (18, 25, 28, 29, 38):  # RELEASE, FLUSH, READDIR, RELEASEDIR, DESTROY
            return b""
        if opcode in (21, 22, 23, 24):  # SETXATTR, GETXATTR, LISTXATTR, REMOVEXATTR
            return self.xattr(opcode, uid, body)
        return errno.ENOSYS

    def serve(self):
        while True:
            try:
                request = os.read(self.device, 1 << 17)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                raise
            _, opcode, unique, node, uid, _, _, _, _ = HEADER.unpack_from(request)
            reply = self.answer(opcode, node, uid, request[HEADER.size:])
            if reply is None:
                continue
            code, data = (-reply, b"") if isinstance(reply, int) else (0, reply)
            try:
                os.write(self.device, struct.pack("<IiQ", 16 + len(data), code, unique) + data)
            except FileNotFoundError:
                pass  # whoever asked was interrupted


if __name__ == "__main__":
    served = Asked(sys.argv[1])
    print("serving", flush=True)
    served.serve()
