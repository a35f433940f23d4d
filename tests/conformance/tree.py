#!/usr/bin/python3
"""Random changes of a tree, made in a directory under test and in a native one (the oracle): each call must end alike in
both, and both trees must be alike afterwards.

    tests/conformance/tree.py DIR ORACLE [--steps N] [--seed S] [--lacks NAME,...]

Both directories must be empty and support the same things (extended attributes, modes, owners) but for what DIR is said to
lack: link, mkfifo, exchange, setxattr and so on (the steps below), folder_times (names that come and go change no time),
long_paths (a rename may not lead to paths beyond some 1,000 bytes), removal (as on NFS, files that are removed while they are
open keep a hidden name, with which their directory cannot be removed and whose end changes its time; of special files that are
gone nobody knows the attributes).
Run it as root. Files get no set-user-ID bits: a mount clears them at each write, a native file system not when it is root who
writes."""

import argparse
import ctypes
import errno
import hashlib
import os
import random
import stat
import sys
import time

LIBC = ctypes.CDLL(None, use_errno=True)
NAMES = ["a", "b", "c", "d", "long-" + "n" * 200, "ü\n"]
DEEPEST = 4
NOREPLACE, EXCHANGE = 1, 2
MOST_OPEN = 6
LONGEST = 1000  # bytes of a path, where long ones are lacking
HIDDEN = ".nfs-tierfs-"  # how the names begin that removed files keep, where removal is lacking


class Different(AssertionError):
    """The two trees, or the ends of a call, differ."""


def renameat2(old, new, flags):
    if LIBC.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def attributes(found):
    """What must be alike. The size and the links of directories are the file system's own affair."""
    seen = [stat.filemode(found.st_mode), found.st_uid, found.st_gid]
    if not stat.S_ISDIR(found.st_mode):
        seen += [found.st_size, found.st_nlink]
    return seen


def visible(names, lacks):
    return [name for name in names if not ("removal" in lacks and name.startswith(HIDDEN))]


def hidden_below(root):
    return [name for _, _, files in os.walk(root) for name in files if name.startswith(HIDDEN)]


def snapshot(root, lacks=()):
    """path: everything about it, of a whole tree."""
    tree = {}
    for folder, folders, files in os.walk(root):
        for name in folders + visible(files, lacks):
            path = os.path.join(folder, name)
            found = os.lstat(path)
            seen = attributes(found)
            if stat.S_ISREG(found.st_mode):
                with open(path, "rb") as file:
                    seen.append(hashlib.sha256(file.read()).hexdigest()[:16])
            if stat.S_ISLNK(found.st_mode):
                seen.append(os.readlink(path))
            else:
                seen.append({key: os.getxattr(path, key) for key in os.listxattr(path) if key.startswith("user.")})
                # What goes through a FIFO stays in the kernel: the mount does not hear of it.
                has_time = not stat.S_ISFIFO(found.st_mode) and not (stat.S_ISDIR(found.st_mode) and "folder_times" in lacks)
                seen.append(found.st_mtime_ns if found.st_mtime_ns < 2_000_000_000 and has_time else "now")
            tree[os.path.relpath(path, root)] = seen
    return tree


class Walker:
    """Makes the same random calls in both places. `lacks`: what the file system has not, see above."""

    def __init__(self, tested, oracle, seed, lacks=()):
        self.roots = (str(tested), str(oracle))
        self.chance, self.lacks = random.Random(seed), lacks
        self.renames = (0, 0, 0, NOREPLACE) + (() if "exchange" in lacks else (EXCHANGE,))
        self.open = []  # pairs of descriptors
        self.last = []
        self.kinds = [(name[5:], getattr(self, name)) for name in sorted(dir(self))
                      if name.startswith("step_") and name[5:] not in lacks]

    def path(self):
        return "/".join(self.chance.choice(NAMES) for _ in range(self.chance.randint(1, DEEPEST)))

    def both(self, what, call):
        """call(root, which) in both places must return the same or fail with the same errno."""
        self.last = self.last[-20:] + [what]
        ends = []
        for which, root in enumerate(self.roots):
            try:
                ends.append(call(root, which))
            except OSError as error:
                ends.append(errno.errorcode.get(error.errno, error.errno))
        if ends[0] != ends[1]:
            raise Different(f"{what}: {ends[0]!r} instead of {ends[1]!r}")
        return ends[0]

    def step(self):
        name, kind = self.chance.choice(self.kinds)
        del name
        kind()

    def run(self, steps, every=500):
        for number in range(steps):
            self.step()
            if number % every == every - 1:
                self.compare()
        self.compare()

    def compare(self):
        ours, theirs = (snapshot(root, self.lacks) for root in self.roots)
        if ours == theirs:
            return
        for path in sorted(set(ours) | set(theirs)):
            if ours.get(path) != theirs.get(path):
                raise Different(f"{path!r}: {ours.get(path)!r} instead of {theirs.get(path)!r}")

    def close(self):
        for pair in self.open:
            for handle in pair:
                os.close(handle)
        self.open = []

    # -- steps --------------------------------------------------------------------------------------------------------

    def step_create(self):
        path, content = self.path(), self.chance.randbytes(self.chance.choice((0, 10, 5000)))
        flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CREAT | self.chance.choice((0, os.O_EXCL, os.O_TRUNC, os.O_APPEND))
        mode = self.chance.choice((0o600, 0o666, 0o755))

        def call(root, _):
            handle = os.open(os.path.join(root, path), flags, mode)
            try:
                return os.write(handle, content)
            finally:
                os.close(handle)
        self.both(f"create {path!r} {flags:o}", call)

    step_create_more = step_create

    def step_mkdir(self):
        path, mode = self.path(), self.chance.choice((0o700, 0o755, 0o1777, 0o2775))
        self.both(f"mkdir {path!r}", lambda root, _: os.mkdir(os.path.join(root, path), mode))

    step_mkdir_more = step_mkdir

    def step_unlink(self):
        path = self.path()
        self.both(f"unlink {path!r}", lambda root, _: os.unlink(os.path.join(root, path)))

    def step_rmdir(self):
        path = self.path()
        if self.keeps_hidden(path):
            return
        self.both(f"rmdir {path!r}", lambda root, _: os.rmdir(os.path.join(root, path)))

    def step_rename(self):
        old, new, flags = self.path(), self.path(), self.chance.choice(self.renames)
        if "long_paths" in self.lacks and len(os.fsencode(new)) + self.longest_below(old) > LONGEST:
            return
        if self.keeps_hidden(new):
            return
        self.both(f"rename {old!r} {new!r} {flags}",
                  lambda root, _: renameat2(os.path.join(root, old), os.path.join(root, new), flags))

    step_rename_more = step_rename

    def keeps_hidden(self, path, when_empty=True):
        """Whether this directory has removed files in it that are kept, and nothing else with `when_empty`."""
        if "removal" not in self.lacks:
            return False
        ours, theirs = (os.path.join(root, path) for root in self.roots)
        try:
            if when_empty and os.listdir(theirs):
                return False
            return any(name.startswith(HIDDEN) for name in os.listdir(ours))
        except OSError:
            return False

    def longest_below(self, path):
        """Bytes of the longest path that leads on from this one."""
        top = os.path.join(self.roots[1], path)
        return max((len(os.fsencode(os.path.join(folder, name))) - len(os.fsencode(top))
                    for folder, folders, files in os.walk(top) for name in folders + files), default=0)

    def step_link(self):
        old, new = self.path(), self.path()
        self.both(f"link {old!r} {new!r}",
                  lambda root, _: os.link(os.path.join(root, old), os.path.join(root, new), follow_symlinks=False))

    def step_symlink(self):
        path, target = self.path(), self.chance.choice(("a", "./b", "nowhere", "d/c", "x" * 1000))
        self.both(f"symlink {path!r}", lambda root, _: os.symlink(target, os.path.join(root, path)))

    def step_mkfifo(self):
        path = self.path()
        self.both(f"mkfifo {path!r}", lambda root, _: os.mkfifo(os.path.join(root, path), 0o640))

    def step_chmod(self):
        path, mode = self.path(), self.chance.choice((0o644, 0o1755, 0o700, 0o555))
        self.both(f"chmod {path!r}", lambda root, _: os.chmod(os.path.join(root, path), mode))

    def step_chown(self):
        path, uid, gid = self.path(), self.chance.choice((-1, 0, 1234)), self.chance.choice((-1, 0, 4321))
        self.both(f"chown {path!r}",
                  lambda root, _: os.chown(os.path.join(root, path), uid, gid, follow_symlinks=False))

    def step_utime(self):
        path, when = self.path(), self.chance.randrange(2_000_000_000)
        if self.keeps_hidden(path, when_empty=False):
            return
        self.both(f"utime {path!r}",
                  lambda root, _: os.utime(os.path.join(root, path), ns=(when, when), follow_symlinks=False))

    def step_truncate(self):
        path, size = self.path(), self.chance.choice((0, 3, 10_000))
        self.both(f"truncate {path!r}", lambda root, _: os.truncate(os.path.join(root, path), size))

    def step_setxattr(self):
        path, name = self.path(), f"user.{self.chance.choice('xyz')}"
        value, flags = self.chance.randbytes(5), self.chance.choice((0, os.XATTR_CREATE, os.XATTR_REPLACE))
        self.both(f"setxattr {path!r}", lambda root, _: os.setxattr(os.path.join(root, path), name, value, flags))

    def step_removexattr(self):
        path, name = self.path(), f"user.{self.chance.choice('xyz')}"
        self.both(f"removexattr {path!r}", lambda root, _: os.removexattr(os.path.join(root, path), name))

    def step_stat(self):
        path, follow = self.path(), self.chance.random() < 0.5
        self.both(f"stat {path!r}",
                  lambda root, _: attributes(os.stat(os.path.join(root, path), follow_symlinks=follow)))

    def step_list(self):
        path = self.path()
        self.both(f"list {path!r}", lambda root, _: sorted(visible(os.listdir(os.path.join(root, path)), self.lacks)))

    def step_read(self):
        path = self.path()

        def call(root, _):
            handle = os.open(os.path.join(root, path), os.O_RDONLY | os.O_NONBLOCK)
            try:
                return hashlib.sha256(os.read(handle, 20_000)).hexdigest()[:16]
            finally:
                os.close(handle)
        self.both(f"read {path!r}", call)

    # -- with files that stay open, whatever becomes of their names

    def step_open(self):
        if len(self.open) >= MOST_OPEN:
            return self.step_close()
        path, pair = self.path(), [None, None]

        def call(root, which):
            pair[which] = os.open(os.path.join(root, path), os.O_RDWR | os.O_NONBLOCK)
        self.both(f"open {path!r}", call)
        if pair[0] is not None:
            self.open.append(pair)
        return None

    def step_close(self):
        if self.open:
            for handle in self.open.pop(self.chance.randrange(len(self.open))):
                os.close(handle)

    def step_use(self):
        if not self.open:
            return
        pair, content = self.chance.choice(self.open), self.chance.randbytes(100)
        offset, size = self.chance.randrange(9000), self.chance.choice((0, 7, 12_000))
        oracle = os.fstat(pair[1])
        gone = "removal" in self.lacks and oracle.st_nlink == 0 and not stat.S_ISREG(oracle.st_mode)
        for what, call in (("write", lambda handle: os.pwrite(handle, content, offset)),
                           ("truncate", lambda handle: os.ftruncate(handle, size)),
                           ("read", lambda handle: os.pread(handle, 20_000, 0)),
                           ("chmod", lambda handle: os.fchmod(handle, 0o640)),
                           ("fsync", os.fsync),
                           ("fstat", lambda handle: attributes(os.fstat(handle)))):
            if self.chance.random() < 0.5 and not (gone and what in ("chmod", "fstat")):
                self.both(f"{what} of an open file", lambda _, which, call=call: call(pair[which]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory")
    parser.add_argument("oracle")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--lacks", type=lambda text: text.split(","), default=(), metavar="NAME,...")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    os.umask(0o022)
    walker = Walker(options.directory, options.oracle, options.seed, options.lacks)
    began = time.monotonic()
    try:
        walker.run(options.steps)
    except Different as problem:
        print("\n".join(walker.last), f"\n{problem}", file=sys.stderr)
        return 1
    finally:
        walker.close()
    print(f"{options.steps} steps in {time.monotonic() - began:.1f} s, no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
