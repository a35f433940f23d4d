"""The steps of two_hosts.py on files where files are files: on a directory, and on an NFS export, where what was written is on its
way until it is synced."""

import errno
import os
import time

import two_hosts_model as model
from two_hosts_calls import LARGEST, MOST_NAMES, MOST_OPEN, SIZES, Handle, read_mapped
from two_hosts_model import Wrong, above


class FileSteps:
    def flags(self, access):
        chance = self.chance.random
        return ({"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}[access]
                | (os.O_CREAT if access != "r" and chance() < 0.6 else 0) | (os.O_TRUNC if access != "r" and chance() < 0.3 else 0)
                | (os.O_APPEND if access != "r" and chance() < 0.15 else 0))

    def step_open(self):
        if len(self.handles) >= MOST_OPEN:
            self.step_close()
            return
        host, path, access = self.host(), self.path("f"), self.chance.choice(("r", "r", "w", "rw"))
        flags = self.flags(access)
        if flags & os.O_CREAT and len(self.names.now) > MOST_NAMES:
            return
        if flags & os.O_CREAT and self.chance.random() < 0.3:
            flags |= os.O_EXCL
        self.open(host, path, access, flags)

    def open(self, host, path, access, flags):
        self.settle(host, path)
        node = self.names.get(path)
        if node is not None and node.is_dir and not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return None
        if node is not None and flags & os.O_TRUNC:
            self.sync_others(host, node)
        errors = model.of_open(self.names.now, path, flags & os.O_CREAT, flags & os.O_EXCL, access != "r")
        self.names.note(host.name, path)
        words = "".join(f" {name}" for name in ("O_CREAT", "O_EXCL", "O_TRUNC", "O_APPEND") if flags & getattr(os, name))
        code, descriptor = self.call(host, f"open {path} {access}{words}", lambda: os.open(host.at(path), flags, 0o644), errors)
        if code is not None:
            return None
        if node is None:
            node = model.Node("f", 0o644, b"", host.name)
            self.added(path, node)
        elif flags & os.O_TRUNC and node.data:
            node.become(host.name, b"")
            self.wrote(host, node, is_sent=True)
        self.opened += 1
        handle = Handle(self.opened, host, descriptor, path, node, access, flags & os.O_APPEND)
        handle.floor = self.first_seen(host, node)
        self.say(f"  it is h{handle.number}")
        self.handles.append(handle)
        return handle

    def first_seen(self, host, node):
        """The first state that the host may see when it opens the file now: what its kernel knows of the size may be as old as
        the ttl."""
        floor = node.floor_for(host.name)
        if not self.names.ttl or not host.is_mount:
            return floor
        since = time.monotonic() - self.names.ttl
        return min(floor, sum(1 for when, _, _ in node.states[1:] if when < since))

    def wrote(self, host, node, is_sent=False):
        """Others see the last state at once, but on an export what was written (not: cut) once it is synced."""
        if self.is_nfs and host.is_mount and (not is_sent or node.unsynced):
            node.unsynced = host.name
        else:
            node.synced = len(node.states) - 1

    def sync_others(self, host, node):
        """On an export: two hosts that write without fsync to one file may come in any order. Let them take turns."""
        if node.unsynced in (None, host.name):
            return
        for handle in self.handles:
            if handle.node is node and handle.host.name == node.unsynced and handle.writes:
                self.fsync(handle)
                return

    def pick(self, wanted):
        found = [handle for handle in self.handles if wanted(handle)]
        return self.chance.choice(found) if found else None

    def may_be_stale(self, handle):
        return handle.host in handle.node.estranged

    def step_read(self):
        handle = self.pick(lambda one: one.reads)
        if handle is None:
            return
        size = len(handle.node.data)
        offset, length = self.chance.randrange(size + 1), self.chance.choice((100, 5000, LARGEST))
        if self.chance.random() < 0.3:
            offset = 0
        if self.chance.random() < 0.2:
            os.posix_fadvise(handle.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        code, got = self.call(handle.host, f"read {handle} {offset}+{length}",
                              lambda: os.pread(handle.descriptor, length, offset), set(), stale=self.may_be_stale(handle))
        if code is None:
            self.check(handle, offset, length, got, f"read {handle}")

    def floor(self, handle):
        if not handle.host.is_mount:
            return handle.node.floor_for(handle.host.name)
        return min(handle.floor, handle.node.floor_for(handle.host.name))

    def check(self, handle, offset, length, got, what):
        model.check_bytes(handle.node, handle.host.name, self.floor(handle), offset, length, got, what)

    def step_mapped(self):
        handle = self.pick(lambda one: one.reads)
        if handle is None:
            return
        code, found = self.call(handle.host, f"fstat {handle}", lambda: os.fstat(handle.descriptor), set(),
                                stale=self.may_be_stale(handle))
        if code is not None:
            return
        sizes = {len(data) for _, _, data in handle.node.states[self.floor(handle):]}
        if found.st_size not in sizes and handle.node.unsynced in (None, handle.host.name):
            raise Wrong(f"fstat {handle}: {found.st_size} bytes instead of {sizes}")
        if found.st_size and len(sizes) == 1:
            code, got = self.call(handle.host, f"map {handle}", lambda: read_mapped(handle.descriptor, found.st_size), set(),
                                  stale=self.may_be_stale(handle))
            if code is None and got is not None:
                self.check(handle, 0, found.st_size, got, f"mapped read {handle}")
            elif code is None and not self.may_be_stale(handle):
                raise Wrong(f"map {handle}: SIGBUS")

    def fresh(self, length):
        self.writes += 1
        return self.writes, length

    def write_at(self, handle, offset, text):
        """pwrite, or an append with a handle that was opened so."""
        node = handle.node
        length = min(self.chance.choice(SIZES), max(0, LARGEST - offset))
        number, _ = self.fresh(length)
        data = model.piece(number, offset, length)
        self.sync_others(handle.host, node)
        if handle.appends and node.links == 0 and len(self.ends(handle)) > 1:
            return  # nobody could tell where it went
        code, done = self.call(handle.host, f"{text} {handle} {offset}+{length} as write {number}",
                               lambda: os.pwrite(handle.descriptor, data, offset), set(), stale=self.may_be_stale(handle))
        if code is not None or not length:
            return
        if done != length and self.may_be_stale(handle):
            return
        if done != length:
            raise Wrong(f"a short write of {done} bytes")
        if handle.appends:
            self.appended(handle, data)
        else:
            old = node.data.ljust(offset, b"\0")
            node.become(handle.host.name, old[:offset] + data + old[offset + length:])
        self.wrote(handle.host, node)

    def appended(self, handle, data):
        """At the end, or where this host thought that it was."""
        node, may_be, ends = handle.node, [], sorted(self.ends(handle), reverse=True)
        for end in ends:
            old = node.data.ljust(end, b"\0")
            may_be.append(old[:end] + data + old[end + len(data):])
        if len(may_be) == 1:
            node.become(handle.host.name, may_be[0])
            return
        os.fsync(handle.descriptor)
        with open(self.plain.at(next(path for path, one in self.names.now.items() if one is node)), "rb") as file:
            found = file.read()
        if found not in may_be:
            raise Wrong(f"append: {model.explain(found)}\n instead of " + "\n or ".join(map(model.explain, may_be)))
        node.become(handle.host.name, found)
        node.ends.setdefault(handle.host, set()).add(ends[may_be.index(found)] + len(data))

    def ends(self, handle):
        node = handle.node
        if not handle.host.is_mount:
            return {len(node.data)}
        return {len(one) for _, _, one in node.states[self.floor(handle):]} | node.ends.get(handle.host, set())

    def step_write(self):
        handle = self.pick(lambda one: one.writes)
        if handle is not None:
            self.write_at(handle, self.chance.choice((0, self.chance.randrange(len(handle.node.data) + 5000), len(handle.node.data))),
                          "write")

    def step_append(self):
        path, host = self.path("f"), self.host()
        if path in self.names and not self.names[path].is_dir and len(self.handles) < MOST_OPEN:
            handle = self.open(host, path, "w", os.O_WRONLY | os.O_APPEND)
            if handle is not None:
                self.write_at(handle, 0, "append")
                self.close(handle)

    def step_ftruncate(self):
        handle = self.pick(lambda one: one.writes)
        if handle is None:
            return
        node, size = handle.node, self.chance.choice((0, 5000, self.chance.randrange(len(handle.node.data) + 100)))
        self.sync_others(handle.host, node)
        code, _ = self.call(handle.host, f"ftruncate {handle} {size}", lambda: os.ftruncate(handle.descriptor, size), set(),
                            stale=self.may_be_stale(handle))
        if code is None and size != len(node.data):
            node.become(handle.host.name, node.data[:size].ljust(size, b"\0"))
            self.wrote(handle.host, node, is_sent=True)

    def step_truncate(self):
        host, path, size = self.host(), self.path("f"), self.chance.choice((0, 100, 9000))
        self.settle(host, path)
        node = self.names.get(path)
        if node is not None:
            self.sync_others(host, node)
        errors = model.of_existing(self.names.now, path) or ({errno.EISDIR} if node.is_dir else set())
        code, _ = self.call(host, f"truncate {path} {size}", lambda: os.truncate(host.at(path), size), errors)
        if code is None and size != len(node.data):
            node.become(host.name, node.data[:size].ljust(size, b"\0"))
            self.wrote(host, node, is_sent=True)

    def step_fsync(self):
        handle = self.pick(lambda one: True)
        if handle is not None:
            self.fsync(handle)

    def fsync(self, handle):
        code, _ = self.call(handle.host, f"fsync {handle}", lambda: os.fsync(handle.descriptor), set(),
                            stale=self.may_be_stale(handle))
        if code is None:
            self.is_synced(handle)

    def is_synced(self, handle):
        if handle.node.unsynced == handle.host.name and handle.writes:
            handle.node.unsynced = None
            handle.node.synced = len(handle.node.states) - 1

    def step_close(self):
        handle = self.pick(lambda one: True)
        if handle is not None:
            self.close(handle)

    def close(self, handle):
        self.handles.remove(handle)
        code, _ = self.call(handle.host, f"close {handle}", lambda: os.close(handle.descriptor), set(),
                            stale=self.may_be_stale(handle))
        if code is None:
            self.is_synced(handle)
        self.prune(handle.node)

    def prune(self, node):
        """What nobody can see any more is forgotten."""
        if len(node.states) > 200:
            keep = min([node.synced, *(one.floor for one in self.handles if one.node is node)])
            del node.states[:keep]
            node.synced -= keep
            for one in self.handles:
                one.floor -= keep if one.node is node else 0

    def step_put(self):
        """The plain client writes a whole file beside it and moves it there."""
        path = self.path("f")
        if len(self.names.now) > MOST_NAMES:
            return
        host, node = self.plain, self.names.get(path)
        number, size = self.fresh(self.chance.choice(SIZES))
        temporary = host.at(".put")
        with open(temporary, "wb") as file:
            file.write(model.piece(number, 0, size))
        errors = model.way(self.names.now, path) or ({errno.EISDIR} if node is not None and node.is_dir else set())
        self.names.note(host.name, path)
        code, _ = self.call(host, f"put {path} {size} as write {number}", lambda: os.rename(temporary, host.at(path)), errors)
        if code is not None:
            os.unlink(temporary)
            return
        if node is not None:
            self.removed(host, path)
        self.added(path, model.Node("f", 0o644, model.piece(number, 0, size), host.name))

    def step_glance(self):
        """Opens, reads all and closes, at once, also what the host may not know of yet."""
        host, path = self.host(), self.path("f")
        if self.chance.random() < 0.5:
            self.settle(host, path)
        else:
            self.settle(host, above(path))
        self.glance(host, path)

    def glance(self, host, path):
        views = self.views(host, path)

        def read():
            with open(host.at(path), "rb", buffering=0) as file:
                return file.read()
        is_settled = not self.names.unsettled(host.name, path) or not host.is_mount
        code, got = self.call(host, f"read all of {path}", read,
                              *(model.of_open(view, path, False, False, True) for view in views), stale=not is_settled)
        if code is not None:
            return
        nodes = [view[path] for view in views if path in view and not view[path].is_dir]
        problem = None
        for node in nodes:
            try:
                model.check_bytes(node, host.name, self.first_seen(host, node), 0, 1 << 40, got, f"read of all of {path}")
                return
            except Wrong as wrong:
                problem = wrong
        raise problem
