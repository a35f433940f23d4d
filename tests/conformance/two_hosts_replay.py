"""Replays the steps that two_hosts.py wrote down, in fresh folders of the same mounts, and leaves out whatever the fault does
not need."""

import errno
import os
import re
import time

import two_hosts_model as model
from two_hosts_calls import getdents, read_mapped, renameat2

ROUNDS = 400


class Replay:
    """One try, in a folder of its own below all roots. `put`, `delete`, `copy`: the plain client's calls on a bucket."""

    def __init__(self, roots, folder, client=None):
        self.roots, self.folder, self.client = roots, folder, client
        self.open, self.seen = {}, {}

    def listed(self, handle, names):
        """Names that were shown twice, at the end."""
        seen = self.seen.setdefault(handle, [])
        seen += names or []
        return "more" if names is not None else sorted({name for name in seen if seen.count(name) > 1})

    def at(self, host, path):
        path = "" if path == "." else path
        return os.path.join(self.roots[host], self.folder, path) if path else os.path.join(self.roots[host], self.folder)

    def close(self):
        for descriptor in self.open.values():
            try:
                os.close(descriptor)
            except OSError:
                pass

    def end_of(self, line):
        """How the call of this line ends now: an errno's name, or ok with a digest of what it said."""
        try:
            said = self.do(line)
            return "ok" if said is None else f"ok {said}"
        except OSError as error:
            return errno.errorcode.get(error.errno, str(error.errno))

    def do(self, line):  # pylint: disable=too-many-return-statements,too-many-branches
        text, _, number = line.partition(" => ")
        host, verb, *words = text.split(" -> ")[0].split()
        if verb == "sleep":
            return time.sleep(float(words[0]))
        handle = re.match(r"([hl]\d+)", words[0]) if words else None
        if handle and verb not in ("open", "opendir"):
            descriptor = self.open.get(handle[1])
            if descriptor is None:
                return None
            numbers = [int(one) for one in re.findall(r"\d+", text.split(") ")[-1].split(" -> ")[0])]
            if verb in ("write", "append"):
                return os.pwrite(descriptor, model.piece(numbers[2], numbers[0], numbers[1]), numbers[0])
            if verb == "read":
                return model.explain(os.pread(descriptor, numbers[1], numbers[0]))
            if verb == "ftruncate":
                return os.ftruncate(descriptor, numbers[0])
            if verb == "map":
                size = os.fstat(descriptor).st_size
                got = read_mapped(descriptor, size) if size else b""
                return "SIGBUS" if got is None else model.explain(got)
            if verb == "fstat":
                return os.fstat(descriptor).st_size
            if verb == "fsync":
                return os.fsync(descriptor)
            if verb == "getdents":
                return self.listed(handle[1], getdents(descriptor, 64))
            del self.open[handle[1]]
            return os.close(descriptor)
        if self.client and host == "P":
            return self.client(self.folder, verb, words)
        path = self.at(host, words[0]) if words else ""
        if verb == "open":
            flags = {"r": os.O_RDONLY, "w": os.O_WRONLY, "rw": os.O_RDWR}[words[1]]
            for word in words[2:]:
                flags |= getattr(os, word)
            descriptor = os.open(path, flags, 0o644)
            if number:
                self.open[number] = descriptor
            else:
                os.close(descriptor)
            return None
        if verb == "opendir":
            self.open[number or "l"] = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            return None
        if verb == "read":  # all of PATH
            with open(self.at(host, words[-1]), "rb", buffering=0) as file:
                return model.explain(file.read())
        if verb == "put":
            with open(path + ".put", "wb") as file:
                file.write(model.piece(int(words[4]), 0, int(words[1])))
            return os.rename(path + ".put", path)
        if verb == "stat":
            found = os.stat(path)
            return f"{found.st_mode:o} {found.st_size if found.st_mode & 0o100000 else ''}"
        calls = {"mkdir": lambda: os.mkdir(path, int(words[1], 8)), "rmdir": lambda: os.rmdir(path), "unlink": lambda: os.unlink(path),
                 "rename": lambda: renameat2(path, self.at(host, words[1]), 1 if "NOREPLACE" in words else 0),
                 "link": lambda: os.link(path, self.at(host, words[1])), "chmod": lambda: os.chmod(path, int(words[1], 8)),
                 "truncate": lambda: os.truncate(path, int(words[1])), "list": lambda: str(sorted(os.listdir(path))),
                 "compare": lambda: None}
        return calls[verb]()


def told(lines, roots, client=None):
    """How each line ends, in a folder of its own."""
    begin(roots, "replay", client)
    one = Replay(roots, "replay", client)
    try:
        return [f"{line.split(' -> ')[0]} -> {one.end_of(line)}" for line in lines if line and not line.startswith("(")]
    finally:
        one.close()


def begin(roots, folder, client):
    if client is None:
        os.mkdir(os.path.join(roots["P"], folder))
    else:
        client(folder, "begin", [])


def shrink(log, roots, client=None):
    """A short list of lines whose last one still ends as it did, or None where a replay does not show it."""
    lines = []
    for line in log:
        if line.startswith("  it is "):
            lines[-1] += " => " + line[8:]
        elif line.startswith("("):
            lines.append("P sleep " + str(float(line[1:].split()[0]) / 1000))
        elif not line.startswith("  "):
            lines.append(line)
    rounds, told = 0, []

    def story(chosen):
        """The lines with what they ended with now."""
        attempt(chosen)
        return [f"{line.split(' -> ')[0]}{line[line.find(' => '):] if ' => ' in line else ''} -> {end}" for line, end in zip(chosen, told)]

    def attempt(chosen):
        nonlocal rounds
        rounds += 1
        folder = f"replay{rounds}"
        begin(roots, folder, client)
        one = Replay(roots, folder, client)
        try:
            told[:] = [one.end_of(line) for line in chosen]
            return told[-1]
        finally:
            one.close()
    ends = [attempt(lines) for _ in range(2)]
    wanted = lines[-1].split(" -> ")[-1].split(" => ")[0]
    if not ends[0].startswith(wanted):
        return [f"a replay does not show it: {ends} instead of {wanted}", *lines[-20:]]
    before, last, size = lines[:-1], lines[-1], max(1, len(lines) // 2)
    while rounds < ROUNDS:
        at, less = 0, False
        while at < len(before) and rounds < ROUNDS:
            tried = before[:at] + before[at + size:]
            if attempt(tried + [last]) == ends[0]:
                before, less = tried, True
            else:
                at += size
        if size == 1 and not less:
            break
        size = max(1, size // 2)
    return [*story(before + [last]), f"({ends[0]})"]
