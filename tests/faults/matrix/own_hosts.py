"""own_hosts.py HOSTS FOLDER COMMAND...: runs the command where HOSTS is /etc/hosts, in the mount namespace that
`unshare --mount --propagation unchanged` has just made. FOLDER is shared with the namespace outside, so that what the
command mounts below it is seen there. Everything else is cut off: nothing is mounted or unmounted outside, and mounts of
others are let go of, for a mount that is seen here stays alive until this namespace ends."""

import ctypes
import os
import re
import sys
import tempfile

MS_BIND, MS_SLAVE, MNT_DETACH = 0x1000, 1 << 19, 2
libc = ctypes.CDLL(None, use_errno=True)


def call(function, *arguments):
    if function(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(arguments))


def mounts():
    with open("/proc/self/mountinfo", "rb") as lines:
        for line in lines:
            fields, kinds = line.split(b" - ")
            place = re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match.group(1), 8)]), fields.split()[4])
            yield place, kinds.split()[0]


def main():
    hosts, folder, command = os.fsencode(sys.argv[1]), os.fsencode(sys.argv[2]), sys.argv[3:]
    others = [(place, kind) for place, kind in mounts() if place != folder]
    for place, _ in others:
        libc.mount(None, place, None, MS_SLAVE, None)  # what lies below another mount cannot be reached
    scratch = os.fsencode(tempfile.gettempdir()) + b"/"
    for place, kind in reversed(others):
        if kind.startswith(b"fuse.") or (place.startswith(scratch) and not folder.startswith(place + b"/")):
            libc.umount2(place, MNT_DETACH)
    call(libc.mount, hosts, b"/etc/hosts", None, MS_BIND, None)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
