"""What two hosts and a plain client of one source may see: the names with their errors, the bytes a file has had, and, where
a mount believes for metadata.ttl what it was told, the states before. See two_hosts.py."""

import errno
import stat
import string
import time

BLOCK = 4096
NOREPLACE = 1
DIGITS = (string.digits + string.ascii_letters).encode()


class Wrong(AssertionError):
    """Something was seen that cannot be."""


def digits_of(number):
    """15 of them, the lowest first."""
    digits = bytearray()
    while len(digits) < 15:
        number, digit = divmod(number, len(DIGITS))
        digits.append(DIGITS[digit])
    return bytes(digits)


def number_of(digits):
    return sum(DIGITS.index(digit) * len(DIGITS) ** place for place, digit in enumerate(digits))


def piece(number, offset, length):
    """Bytes of the write of this number that lie there in a file: each 4 KiB tell which write they are of and where they
    belong, and so do the first few of a short one: the digits that change most come first."""
    first, last = offset // BLOCK, (offset + length + BLOCK - 1) // BLOCK
    digits = digits_of(number)
    lines = [(b"%s@%015x\n" % (digits, block)) * (BLOCK // 32) for block in range(first, last)]
    return b"".join(lines)[offset - first * BLOCK:][:length]


def explain(data, limit=6):
    """Bytes in words: which writes they are of."""
    seen = []
    for at in range(0, len(data), BLOCK):
        block = data[at:at + BLOCK]
        start = block.find(b"\n") + 1
        line = block[start:start + 31]
        word = f"write {number_of(line[:15])} block {int(line[16:], 16)}" if line[15:16] == b"@" and line[:15].isalnum() and len(line) == 31 \
            else ("zeros" if not block.strip(b"\0") else repr(block[:40]))
        if not seen or seen[-1][1].split(" block")[0] != word.split(" block")[0]:
            seen.append((at, word))
    more = " ..." if len(seen) > limit else ""
    return f"{len(data)} bytes: " + ", ".join(f"at {at} {word}" for at, word in seen[:limit]) + more


def above(path):
    return path.rpartition("/")[0]


def ways_up(path):
    """The path and all directories on the way to it, the root left out."""
    while path:
        yield path
        path = above(path)


def below(path, other):
    return other.startswith(path + "/") if path else other != ""


class Node:
    """A file or a directory. Names of one file (hard links) have one node."""

    def __init__(self, kind, mode, data=b"", author=""):
        self.kind, self.mode, self.links = kind, mode, 1
        self.states = [(time.monotonic(), author, data)]  # the bytes it had, the latest last
        self.synced = 0  # which of these everybody sees at least
        self.unsynced = None  # the host whose writes others need not see yet
        self.estranged = set()  # hosts that another one took the file from
        self.met = set()  # hosts that know a directory by the path it has
        self.ends = {}  # by host: where its appends ended, and where it may take the end for
        self.hides = False  # on NFS: a file that was removed while it was open keeps a name in it

    is_dir = property(lambda self: self.kind == "d")
    data = property(lambda self: self.states[-1][2])

    def become(self, author, data):
        self.states.append((time.monotonic(), author, data))

    def floor_for(self, host):
        """The first state that the host may see when it opens the file now."""
        return self.synced if self.unsynced not in (None, host) else len(self.states) - 1


# -- errors of calls, by the names that are there. An empty set: it must succeed.

def way(view, path):
    at = ""
    for part in path.split("/")[:-1]:
        at = f"{at}/{part}" if at else part
        if at not in view:
            return {errno.ENOENT}
        if not view[at].is_dir:
            return {errno.ENOTDIR}
    return set()


def of_existing(view, path):
    return way(view, path) or (set() if path in view else {errno.ENOENT})


def of_open(view, path, creates, exclusive, writes):
    lost = way(view, path)
    if lost:
        return lost
    node = view.get(path)
    if node is None:
        return set() if creates else {errno.ENOENT}
    if exclusive:
        return {errno.EEXIST}
    return {errno.EISDIR} if node.is_dir and (writes or creates) else set()


def of_mkdir(view, path):
    return way(view, path) or ({errno.EEXIST} if path in view else set())


def of_unlink(view, path):
    return of_existing(view, path) or ({errno.EISDIR} if view[path].is_dir else set())


def is_empty(view, path):
    return not any(below(path, other) for other in view)


def of_rmdir(view, path):
    lost = of_existing(view, path)
    if lost:
        return lost
    if not view[path].is_dir:
        return {errno.ENOTDIR}
    return set() if is_empty(view, path) else {errno.ENOTEMPTY}


def of_rename(view, old, new, flags):
    lost = way(view, old) | way(view, new)
    if lost:
        return lost
    node, target = view.get(old), view.get(new)
    if node is None:
        return {errno.ENOENT}
    if flags & NOREPLACE and target is not None:
        return {errno.EEXIST}
    if below(old, new):
        return {errno.EINVAL}
    if below(new, old):
        return {errno.ENOTEMPTY}
    if target is None or target is node:
        return set()
    if node.is_dir != target.is_dir:
        return {errno.ENOTDIR} if node.is_dir else {errno.EISDIR}
    return {errno.ENOTEMPTY} if node.is_dir and not is_empty(view, new) else set()


def of_link(view, old, new):
    lost = of_existing(view, old) or way(view, new)
    if lost:
        return lost
    wrong = {errno.EEXIST} if new in view else set()
    return wrong | ({errno.EPERM} if view[old].is_dir else set())


class Names:
    """All names by path, and those of a moment ago. `ttl`: seconds, all in all, that a host may believe what was."""

    def __init__(self, ttl):
        self.ttl = ttl
        self.now = {}
        self.before = []  # (until when, names)
        self.changed = {}  # path: (when, by whom)
        self.making, self.changed_before = None, {}  # the moment of a change that is being made; what `changed` said before it

    def __contains__(self, path):
        return path in self.now

    def __getitem__(self, path):
        return self.now[path]

    def get(self, path):
        return self.now.get(path)

    def note(self, host, *paths):
        """To be called before the names are changed there."""
        if not self.ttl:
            return
        moment = time.monotonic()
        self.before = [(until, names) for until, names in self.before if until > moment - self.ttl - 1]
        self.before.append((moment, dict(self.now)))
        self.making, self.changed_before = moment, {path: self.changed.get(path, (0, None)) for path in paths}
        for path in paths:
            self.changed[path] = (moment, host)

    def made(self):
        """The call has returned: from now on its host knows of the change."""
        self.making = None

    def views(self, host, *paths):
        """What the host may believe of these paths, the truth last. Of its own changes it knows."""
        if not self.ttl:
            return [self.now]
        since = time.monotonic() - self.ttl
        for path in paths:
            for one in ways_up(path):
                when, by = self.changed.get(one, (0, None))
                if when == self.making:
                    when, by = self.changed_before[one]
                if by == host:
                    since = max(since, when)
        return [names for until, names in self.before if until > since] + [self.now]

    def unsettled(self, host, *paths):
        """Seconds until the host must know the truth about these paths and what is on the way to them."""
        if not self.ttl:
            return 0
        left = 0
        for path in paths:
            for one in ways_up(path):
                when, by = self.changed.get(one, (0, None))
                if by != host:
                    left = max(left, when + self.ttl - time.monotonic())
        return left

    def folder(self, path, view=None):
        view = self.now if view is None else view
        start = path + "/" if path else ""
        return {other[len(start):] for other in view if other.startswith(start) and "/" not in other[len(start):]}

    def move(self, old, new):
        for path in [one for one in self.now if one == old or below(old, one)]:
            self.now[new + path[len(old):]] = self.now.pop(path)


# -- bytes

def slices(states, offset, length):
    return [data[offset:offset + length] for _, _, data in states]


def check_bytes(node, host, floor, offset, length, got, what):
    """`got` is what a file had there at one time since the state `floor`, byte by byte: of an open file that others write to
    old and new bytes may be seen. If only the host itself wrote to it since, it is what is there now."""
    states = node.states[floor:]
    if all(author == host for _, author, _ in states[1:]):
        states = states[-1:]
    may_be = slices(states, offset, length)
    if got in may_be:
        return
    sizes = {len(one) for one in may_be}
    is_on_its_way = node.unsynced not in (None, host)  # some of its WRITE calls have come there, and others not yet
    if len(states) > 1 and (len(got) in sizes or (is_on_its_way and len(got) <= max(sizes))):
        # What lay behind an end that moved meanwhile may be zeros still.
        same = all(any(got[at:at + BLOCK] == one[at:at + BLOCK] for one in may_be)
                   or all(any(byte == (one[place] if place < len(one) else 0) for one in may_be)
                          for place, byte in enumerate(got[at:at + BLOCK], at))
                   for at in range(0, len(got), BLOCK))
        if same:
            return
    raise Wrong(f"{what} of {length} bytes at {offset}: {explain(got)}\n  instead of " +
                "\n  or of ".join(explain(one) for one in may_be[-4:]))


def mode_of(found):
    return stat.S_IMODE(found.st_mode)
