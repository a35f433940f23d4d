"""The steps of two_hosts.py on files of a bucket: each is a version, and who has it open may lose it."""

import errno
import mmap
import os

import two_hosts_model as model
from two_hosts_calls import Handle, read_mapped
from two_hosts_client import Copy
from two_hosts_model import Wrong

MIB = 1 << 20
LARGEST = 20 * MIB


class VersionSteps:
    def open(self, host, path, access, flags):
        self.settle(host, path)
        copy = self.copies[host].get(path)
        if copy is not None and (access != "r" or copy.lost) and any(one.node is copy and one.writes for one in self.handles):
            return None
        if copy is not None and self.is_held(copy):
            return None
        view = self.views(host, path)[-1]
        node = view.get(path)
        if node is not None and node.is_dir and not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return None
        if flags & os.O_EXCL and model.way(self.names.now, path):
            return None
        errors = [model.of_open(one, path, flags & os.O_CREAT, flags & os.O_EXCL, access != "r") for one in self.views(host, path)]
        words = "".join(f" {name}" for name in ("O_CREAT", "O_EXCL", "O_TRUNC", "O_APPEND") if flags & getattr(os, name))
        code, descriptor = self.call(host, f"open {path} {access}{words}", lambda: os.open(host.at(path), flags, 0o644), *errors)
        if code is not None:
            return None
        if flags & os.O_EXCL:
            self.must_be_possible({errno.EEXIST} if path in self.names else set())
        if copy is None or copy.lost:
            there = self.names.get(path)
            copy = Copy(host, path, b"" if there is None else there.data, there)
            copy.mode = 0o644 if there is None else there.mode
            for older in {id(one.node): one.node for one in self.handles if one.host is host}.values():
                newest = self.newer(older) or older  # which may have been closed since
                if older.last_path == path and newest.last_path == path and newest is not copy:
                    newest.newer = copy
                if older.last_path == path and older.lost and copy.may_be[0] in older.may_be:
                    older.twin = copy  # the same bytes are the same version
            self.copies[host][path] = copy
            if there is None:
                copy.dirty = copy.whole = copy.seen = True
                if flags & os.O_EXCL:
                    self.claimed(copy)
                for one in self.listings:
                    if one.host is host:
                        name = path.rpartition("/")[2]
                        one.ever.add(name)
        if flags & os.O_TRUNC and not flags & os.O_EXCL:
            copy.may_be, copy.dirty, copy.whole = [b""], True, True
        self.opened += 1
        handle = Handle(self.opened, host, descriptor, path, copy, access, flags & os.O_APPEND)
        self.say(f"  it is h{handle.number}")
        self.handles.append(handle)
        return handle

    def claimed(self, copy):
        """O_EXCL has put an empty object there, where there was none."""
        self.adopt(copy.host, copy.path, b"")
        self.replaced(copy.host, copy.path)
        copy.is_published(b"", self.names[copy.path])
        copy.seen = copy.whole = False

    def may_be_stale(self, handle):
        return handle.node.lost and not handle.node.whole

    def candidates(self, copy):
        """What it may hold; nothing of it having been seen, what has come to its name since, too, even if it was moved there here."""
        if copy.lost and not copy.seen and not copy.dirty:
            newer = self.newer(copy)
            more = copy.later + (newer.may_be if newer is not None else [])
            return copy.may_be + [one for number, one in enumerate(more) if one not in copy.may_be and one not in more[:number]]
        return copy.may_be + [one for one in copy.twin.may_be if one not in copy.may_be] if copy.twin is not None else copy.may_be

    def newer(self, copy):
        """What the host has open under the name that the file had: where nothing was seen of the one, it may be the other."""
        found = copy
        while found.newer is not None:
            found = found.newer
        return found if found is not copy else None

    def step_read(self):
        handle = self.pick(lambda one: one.reads)
        if handle is None:
            return
        copy, length = handle.node, self.chance.choice((100, 5000, LARGEST + 1))
        size = len(copy.may_be[0])
        offset = 0 if self.chance.random() < 0.3 else self.chance.randrange(size + 1)
        if self.chance.random() < 0.2:
            os.posix_fadvise(handle.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        code, got = self.call(handle.host, f"read {handle} {offset}+{length}",
                              lambda: os.pread(handle.descriptor, length, offset), set(), stale=self.may_be_stale(handle))
        if code is None:
            self.check(handle, offset, length, got, "read")

    def check(self, handle, offset, length, got, what):
        copy = handle.node
        may_be = self.candidates(copy)
        right = [one for one in may_be if one[offset:offset + length] == got]
        if not right and self.may_be_stale(handle) and what == "read" and got and \
                any(one[offset:offset + length].startswith(got) for one in may_be):
            return  # a short read: the rest is not to be had any more
        if not right:
            raise Wrong(f"{what} {handle} ({copy}) of {length} at {offset}: {model.explain(got)}\n  instead of " +
                        "\n  or ".join(model.explain(one[offset:offset + length]) for one in may_be))
        newer = self.newer(copy) if copy.lost and not copy.seen and not copy.dirty else None
        own = any(one[offset:offset + length] == got for one in copy.may_be)  # bytes that both have tell nothing
        if got and not own and newer is not None and any(one[offset:offset + length] == got for one in newer.may_be):
            copy.twin = newer
        twin = copy.twin
        if twin is not None and any(one in twin.may_be for one in right) and not any(one in copy.may_be for one in right) and copy.seen:
            for one in self.handles:
                one.node = twin if one.node is copy else one.node
            copy = twin
        elif twin is not None and not any(one in twin.may_be for one in right):
            copy.twin = None
        copy.may_be, copy.seen = right, copy.seen or bool(got)
        handle.has_read = handle.has_read or bool(got)

    def step_mapped(self):
        handle = self.pick(lambda one: one.reads)
        if handle is None:
            return
        stale = self.may_be_stale(handle)
        code, found = self.call(handle.host, f"fstat {handle}", lambda: os.fstat(handle.descriptor), set(), stale=stale)
        if code is not None:
            return
        sizes = {len(one) for one in self.candidates(handle.node)}
        if found.st_size not in sizes:
            raise Wrong(f"fstat {handle} ({handle.node}): {found.st_size} bytes instead of {sizes}")
        mapped = self.mapped(handle.node, found.st_size)
        handle.node.may_be = [one for one in self.candidates(handle.node) if len(one) == found.st_size]
        if found.st_size:
            code, got = self.call(handle.host, f"map {handle}", lambda: read_mapped(handle.descriptor, found.st_size), set(), stale=stale)
            if code is None and got in mapped:
                handle.node.may_be, handle.node.seen = [mapped[got]], True
                handle.has_read = True
            elif code is None and got is not None:
                self.check(handle, 0, found.st_size, got, "mapped read")
            elif code is None and not stale:
                raise Wrong(f"map {handle}: SIGBUS")

    def mapped(self, copy, size):
        """What a mapping of so many bytes shows of each shorter version that may have come to the name of a file of which
        nothing was seen after its size was asked for: zeros to the end of its last page."""
        if not copy.lost or copy.seen or copy.dirty:
            return {}
        return {one.ljust(size, b"\0"): one for one in self.candidates(copy)
                if len(one) < size and -(-len(one) // mmap.PAGESIZE) == -(-size // mmap.PAGESIZE)}

    def can_publish(self, copy):
        """Whether it would go where a file can be."""
        return copy.path is None or (not model.way(self.names.now, copy.path) and not
                                     (copy.path in self.names and self.names[copy.path].is_dir))

    def change(self, handle, what, function, change):
        copy = handle.node
        if not self.can_publish(copy):
            return
        code, done = self.call(handle.host, f"{what}", function, set(),
                               stale=self.may_be_stale(handle) or (copy.lost and not copy.dirty))
        if code is not None:
            return
        copy.may_be = [change(one) for one in self.candidates(copy)]
        copy.dirty = copy.seen = True
        return done

    def write_at(self, handle, offset, text):
        big = self.chance.random() < 0.02
        length = self.chance.choice((9 * MIB, 17 * MIB)) if big else self.chance.choice((0, 1, 100, 4096, 10_000, 70_000))
        length = max(0, min(length, LARGEST - offset))
        number, _ = self.fresh(length)
        data = model.piece(number, offset, length)
        if not length:
            return

        def change(old):
            place = len(old) if handle.appends else offset
            return old.ljust(place, b"\0")[:place] + data + old[place + length:]
        done = self.change(handle, f"{text} {handle} {offset}+{length} as write {number}",
                           lambda: os.pwrite(handle.descriptor, data, offset), change)
        if done not in (None, length):
            raise Wrong(f"a short write of {done} bytes")

    def step_write(self):
        handle = self.pick(lambda one: one.writes)
        if handle is not None:
            size = len(handle.node.may_be[0])
            self.write_at(handle, self.chance.choice((0, self.chance.randrange(size + 5000), size)), "write")

    def step_ftruncate(self):
        handle = self.pick(lambda one: one.writes)
        if handle is None:
            return
        size = self.chance.choice((0, 5000, self.chance.randrange(len(handle.node.may_be[0]) + 100)))
        done = self.change(handle, f"ftruncate {handle} {size}", lambda: os.ftruncate(handle.descriptor, size) or True,
                           lambda old: old[:size].ljust(size, b"\0"))
        if done and size == 0:
            handle.node.whole = True

    def step_append(self):
        path, host = self.path("f"), self.host()
        if path in self.names and not self.names[path].is_dir and len(self.handles) < 12:
            handle = self.open(host, path, "w", os.O_WRONLY | os.O_APPEND)
            if handle is not None:
                self.write_at(handle, 0, "append")
                self.close(handle)

    def step_truncate(self):
        host, path, size = self.host(), self.path("f"), self.chance.choice((0, 100, 9000))
        self.close_dirty(None, path)
        self.settle(host, path)
        node = self.names.get(path)
        errors = [model.of_existing(view, path) or ({errno.EISDIR} if view[path].is_dir else set()) for view in self.views(host, path)]
        code, _ = self.call(host, f"truncate {path} {size}", lambda: os.truncate(host.at(path), size), *errors)
        if code is not None:
            return
        data = node.data[:size].ljust(size, b"\0")
        copy = self.copies[host].get(path)
        if copy is not None and not copy.lost:
            copy.may_be = [data]
        elif copy is not None and not data and data not in copy.may_be:  # it may not know yet that it is lost, nor has to
            copy.may_be = copy.may_be + [data]
        self.adopt(host, path, data)
        if copy is not None and not copy.lost:
            copy.version = self.names[path]

    def fsync(self, handle):
        self.publish(handle, "fsync", lambda: os.fsync(handle.descriptor))

    def close(self, handle):
        self.handles.remove(handle)
        self.publish(handle, "close", lambda: os.close(handle.descriptor))
        copy = handle.node
        mine = [one for one in self.handles if one.node is copy]
        if handle.writes and not copy.dirty and not any(one.writes or one.has_read for one in mine):
            # Nothing of what was written was seen through those that are left: they may be what is at the name by now.
            there = self.names.get(copy.last_path) if copy.lost else None
            copy.later = ([] if copy.seen else copy.later) + ([] if there is None or there.is_dir else [there.data])
            copy.seen = False
        if not mine and self.copies[handle.host].get(copy.path) is copy:
            del self.copies[handle.host][copy.path]

    def publish(self, handle, what, function):
        copy, host, writes = handle.node, handle.host, handle.writes
        if not copy.dirty and copy.twin is not None and copy.twin.dirty:
            copy, writes = copy.twin, False  # they may be one file
        there = self.names.get(copy.path) if copy.path is not None else None
        allowed = [set()]
        if copy.dirty and copy.path is not None:
            if copy.lost and not copy.whole:
                allowed.append({errno.ESTALE})
            if copy.has_lost_name:
                allowed.append({errno.EEXIST, errno.ESTALE})
        if not writes and copy.dirty:
            allowed.append({errno.EEXIST, errno.ESTALE})
        code, _ = self.call(host, f"{what} {handle}", function, *allowed)
        if what == "close" and writes:
            copy.whole = False
        if not copy.dirty or copy.path is None:
            return
        if code is not None:
            copy.has_lost_name = True
            self.adopt(host, copy.path, None if there is None else there.data)
            if what == "close" and writes:
                # What was written is given up: who has it open still has what was there before.
                copy.may_be += [one.data for one in (copy.version, there) if one is not None]
                copy.dirty, copy.lost = False, True
                self.copies[host].pop(copy.path, None)
            return
        may_be = list(copy.may_be)
        if not writes:  # it may be left to who writes
            may_be.append(None if there is None else there.data)
        found = self.adopt(host, copy.path, *may_be)
        if found in copy.may_be and (writes or there is None or found != there.data):
            copy.is_published(found, self.names[copy.path])
            self.replaced(host, copy.path)
            self.copies[host][copy.path] = copy
            if there is None:
                copy.version.mode = copy.mode
            elif there.mode != copy.mode:  # it comes with the file, or stays: who closes last has not seen it
                copy.version.mode = self.mode_there(copy.path, there.mode, copy.mode)
