"""The steps of two_hosts_faults.py, and of each name what may be there."""

import collections
import errno
import os
import random
import threading
import time
from pathlib import Path

from harness import processes
from two_hosts_model import Wrong, explain, piece

NAMES = [f"{folder}/{name}" for folder in ("x", "y") for name in "abc"]
SIZES = (0, 1, 100, 5000, 70_000)
LARGE = 9 << 20  # travels in parts
LAG = 3  # seconds that a LIST of RGW 16 may lag a PUT
# What a caller may be told when a server fails; a path that has not become what was asked for has another error.
FAILED = {errno.EIO, errno.ETIMEDOUT, errno.ESTALE, errno.EAGAIN, errno.EBUSY}
KILLED = {errno.ENOTCONN, errno.ECONNABORTED}
ABSENT = None  # a version: no file


def weather(seed):
    """Rules of the fault proxy: rarely each, so that most requests succeed when they are sent again."""
    failed = {"do": "reply", "status": 503, "code": "SlowDown"}
    return [
        {"name": "lost answer", "match": {"probability": 0.03, "seed": seed}, "faults": [{"do": "reset"}]},
        {"name": "503", "match": {"probability": 0.03, "seed": seed + 1}, "faults": [failed]},
        {"name": "500", "match": {"probability": 0.02, "seed": seed + 2},
         "faults": [{"do": "reply", "status": 500, "code": "InternalError"}]},
        {"name": "200 with an error", "match": {"header": {"x-amz-copy-source": "."}, "probability": 0.2, "seed": seed + 3},
         "faults": [{"do": "reply", "status": 200, "code": "InternalError"}]},
        {"name": "cut short", "match": {"kind": "get", "probability": 0.05, "seed": seed + 4},
         "faults": [{"do": "truncate", "share": 0.5}]},
    ]


STORM = [{"name": "storm", "faults": [{"do": "reply", "status": 503, "code": "SlowDown"}]}]
LOSSES = [{"name": "losses", "faults": [{"do": "reset"}]}]


class Host:
    def __init__(self, name, mount):
        self.name, self.mount, self.killed = name, mount, False

    def __str__(self):
        return self.name

    def at(self, path):
        return str(self.mount.path / path)


class Reader:
    """An open file and what was read through it."""

    def __init__(self, host, path, descriptor, may_be):
        self.host, self.path, self.descriptor, self.may_be = host, path, descriptor, may_be


class Writer:
    """A file that was cut to nothing and written, and will be closed."""

    def __init__(self, host, path, descriptor, data):
        self.host, self.path, self.descriptor, self.data = host, path, descriptor, data


class Weak:
    """The steps. `there`: of each name what may be at the bucket: bytes, or ABSENT for no file."""

    def __init__(self, hosts, client, proxy, seed, with_kills, with_faults):
        self.hosts, self.client, self.proxy = hosts, client, proxy
        self.chance = random.Random(seed)
        self.with_kills, self.with_faults, self.seed = with_kills, with_faults, seed
        self.there = {path: {ABSENT} for path in NAMES}
        self.modes = {}
        self.readers, self.writers, self.timers = [], [], []
        self.number = 0
        self.lines = collections.deque(maxlen=60)
        self.counts, self.errors = collections.Counter(), collections.Counter()

    def say(self, text):
        self.lines.append(text)

    def fresh(self):
        self.number += 1
        size = LARGE if self.chance.random() < 0.01 else self.chance.choice(SIZES)
        return piece(self.number, 0, size), f"{size} as write {self.number}"

    # -- calls

    def call(self, host, what, path, function, *logical):
        """(error, result). `logical`: errors that say what is there; any other must be a failure, with a line in the log."""
        began = host.mount.log.stat().st_size
        try:
            result = function()
            code = None
        except OSError as problem:
            result, code = None, problem.errno
        self.say(f"{host} {what} -> {'ok' if code is None else errno.errorcode.get(code, code)}")
        if code is None or code in logical:
            return code, result
        self.errors[errno.errorcode.get(code, code)] += 1
        if code in KILLED and host.killed:
            return code, None
        if code not in FAILED:
            raise Wrong(f"{host} {what}: {os.strerror(code)}")
        if not host.killed:
            self.must_be_logged(host, what, path, began, code)
        return code, None

    def must_be_logged(self, host, what, path, began, code):
        """Lines are rate-limited: one of this path or of its folder, and of late, will do."""
        end = time.monotonic() + 2
        while True:
            text = host.mount.log.read_text(errors="replace")
            if len(text) == began and errno.errorcode[code] in text[-1000:]:
                return  # one of many
            if any(f" of {one} " in text[began:] or f" of {one} " in text[-100_000:] or one == path and path in text[began:]
                   for one in (path, path[0], "a file without a name")):
                return
            if time.monotonic() > end:
                raise Wrong(f"{host} {what}: the log has no line of it:\n{text[began:]}")
            time.sleep(0.05)

    def maybe(self, path, *versions):
        self.there[path] = self.there[path] | set(versions)

    def must(self, path, versions, found, what):
        if found not in versions:
            raise Wrong(f"{what} {path}: {self.word(found)}\n  instead of " + "\n  or ".join(map(self.word, versions)))

    @staticmethod
    def word(version):
        return "no file" if version is ABSENT else explain(version)

    def let_go(self, host, path):
        """What this host itself does to a name is seen through its descriptors."""
        for one in [one for one in self.readers if one.host is host and one.path == path]:
            self.readers.remove(one)
            self.close_quietly(one)

    def close_quietly(self, one):
        try:
            os.close(one.descriptor)
        except OSError:
            pass

    def pick(self):
        """A mount and a name that nobody writes there."""
        host, path = self.chance.choice(self.hosts), self.chance.choice(NAMES)
        return (host, path) if not any(one.host is host and one.path == path for one in self.writers) else (None, None)

    # -- steps

    def write(self, host, path, flags):
        """The errors of open, write and close; the last that was reached."""
        data, text = self.fresh()
        self.let_go(host, path)
        words = " O_EXCL" if flags & os.O_EXCL else ""
        code, descriptor = self.call(host, f"open {path}{words}", path, lambda: os.open(host.at(path), flags, 0o644), errno.EEXIST)
        if code is not None:
            return code, data, None
        rest = memoryview(data)
        while True:  # the kernel writes a megabyte at a time, and says how far it came before an error
            code, done = self.call(host, f"write {path} {text}", path, lambda rest=rest: os.write(descriptor, rest))
            if code is not None or done == len(rest):
                return code, data, descriptor
            if done == 0 or not self.with_faults:
                raise Wrong(f"{host} write {path}: {done} of {len(rest)} bytes")
            rest = rest[done:]

    def step_write(self):
        host, path = self.pick()
        if host is None:
            return
        code, data, descriptor = self.write(host, path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        if code is None and len(self.writers) < 3 and self.chance.random() < 0.2:
            self.writers.append(Writer(host, path, descriptor, data))
            return
        if descriptor is not None:
            if code is None and self.chance.random() < 0.3:
                self.finished(path, data, self.call(host, f"fsync {path}", path, lambda: os.fsync(descriptor))[0])
            closed, _ = self.call(host, f"close {path}", path, lambda: os.close(descriptor), errno.EEXIST)
            code = code or closed
        self.finished(path, data, code)

    def finished(self, path, data, code):
        if code is None:
            self.there[path] = {data}
        else:
            self.maybe(path, data, b"")

    def step_close(self):
        if self.writers:
            one = self.writers.pop(self.chance.randrange(len(self.writers)))
            code, _ = self.call(one.host, f"close {one.path}, which was open", one.path, lambda: os.close(one.descriptor), errno.EEXIST)
            self.let_go(one.host, one.path)
            self.finished(one.path, one.data, code)

    def step_create(self):
        host, path = self.pick()
        if host is None:
            return
        code, data, descriptor = self.write(host, path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        if descriptor is None:
            if code == errno.EEXIST:
                self.found(path, "there", f"{host} open O_EXCL: EEXIST")
            elif ABSENT in self.there[path]:  # it may have been made, and nobody has written to it
                self.maybe(path, b"")
            return
        if code is None and ABSENT not in self.there[path]:
            raise Wrong(f"{host} open O_EXCL {path}: it is there: {list(map(self.word, self.there[path]))}")
        closed, _ = self.call(host, f"close {path}", path, lambda: os.close(descriptor), errno.EEXIST)
        if closed == errno.EEXIST:  # of what its own request has made, the answer to which was lost, too
            self.maybe(path, data, b"")
            return self.found(path, "there", f"{host} close O_EXCL: EEXIST")
        return self.finished(path, data, code or closed)

    def found(self, path, what, said):
        """What an answer says of a name, and forgets all that it cannot be."""
        fits = {one for one in self.there[path] if (one is not ABSENT) == (what == "there")}
        if not fits:
            raise Wrong(f"{said}: {path} may be {list(map(self.word, self.there[path]))}")
        self.there[path] = fits

    def step_append(self):
        host, path = self.pick()
        if host is None:
            return
        data, text = self.fresh()
        self.let_go(host, path)
        code, descriptor = self.call(host, f"open {path} O_APPEND", path, lambda: os.open(host.at(path), os.O_APPEND | os.O_WRONLY),
                                     errno.ENOENT)
        if code == errno.ENOENT:
            return self.found(path, "absent", f"{host} open O_APPEND: ENOENT")
        if code is not None:
            return None
        self.found(path, "there", f"{host} open O_APPEND")
        longer = {one + data for one in self.there[path]}
        code, _ = self.call(host, f"append {path} {text}", path, lambda: os.write(descriptor, data))
        closed, _ = self.call(host, f"close {path}", path, lambda: os.close(descriptor))
        if code is None and closed is None:
            self.there[path] = longer
        else:
            self.maybe(path, *longer)
        return None

    def step_unlink(self):
        host, path = self.pick()
        if host is None:
            return
        self.let_go(host, path)
        code, _ = self.call(host, f"unlink {path}", path, lambda: os.unlink(host.at(path)), errno.ENOENT)
        if code == errno.ENOENT:
            self.found(path, "absent", f"{host} unlink: ENOENT")
        elif code is None:
            self.there[path] = {ABSENT}
        else:
            self.maybe(path, ABSENT)

    def knows_what_was_renamed(self):
        """Whether ENOENT says that the old name was not there."""
        return True

    def step_rename(self):
        host, old = self.pick()
        other, new = self.pick()
        if host is None or other is not host or old == new:
            return
        self.let_go(host, old)
        self.let_go(host, new)
        code, _ = self.call(host, f"rename {old} {new}", old, lambda: os.rename(host.at(old), host.at(new)), errno.ENOENT)
        if code == errno.ENOENT and self.knows_what_was_renamed():
            return self.found(old, "absent", f"{host} rename: ENOENT")
        moved = self.there[old] - {ABSENT}
        if code is None:
            self.found(old, "there", f"{host} rename")
            self.there[new], self.there[old] = moved, {ABSENT}
        else:
            self.maybe(new, *moved)
            self.maybe(old, ABSENT)
        return None

    def step_link(self):
        host, old = self.pick()
        other, new = self.pick()
        if host is None or other is not host or old == new:
            return
        code, _ = self.call(host, f"link {old} {new}", new, lambda: os.link(host.at(old), host.at(new)), errno.ENOENT, errno.EEXIST)
        if code == errno.ENOENT:
            return self.found(old, "absent", f"{host} link: ENOENT")
        made = self.there[old] - {ABSENT}
        if code == errno.EEXIST:
            return self.found(new, "there", f"{host} link: EEXIST")
        if code is None:
            self.found(new, "absent", f"{host} link")
            self.there[new] = made
        else:
            self.maybe(new, *made)
        return None

    def step_chmod(self):
        host, path = self.pick()
        if host is None:
            return
        code, _ = self.call(host, f"chmod {path}", path, lambda: os.chmod(host.at(path), self.chance.choice((0o600, 0o644))), errno.ENOENT)
        if code == errno.ENOENT:
            self.found(path, "absent", f"{host} chmod: ENOENT")

    def step_read(self):
        host, path = self.pick()
        if host is None:
            return

        def read():
            with open(host.at(path), "rb", buffering=0) as file:
                return file.readall()
        code, got = self.call(host, f"read {path}", path, read, errno.ENOENT)
        if code == errno.ENOENT:
            self.found(path, "absent", f"{host} read: ENOENT")
        elif code is None:
            self.must(path, self.there[path], got, f"{host} read")
            self.there[path] = {got}

    def step_open(self):
        host, path = self.pick()
        if host is None or len(self.readers) > 5:
            return
        code, descriptor = self.call(host, f"open {path}, to read", path, lambda: os.open(host.at(path), os.O_RDONLY), errno.ENOENT)
        if code == errno.ENOENT:
            self.found(path, "absent", f"{host} open: ENOENT")
        elif code is None:
            self.readers.append(Reader(host, path, descriptor, None))

    def step_read_open(self):
        """One version, whatever has come to its name; the first time the one that is there, or was since it was opened."""
        if not self.readers:
            return
        one = self.chance.choice(self.readers)
        code, got = self.call(one.host, f"read {one.path}, which was open", one.path, lambda: os.pread(one.descriptor, 64 << 20, 0))
        if code is not None:
            return
        if one.may_be is None:
            one.may_be = got
        elif got != one.may_be and not (one.may_be.startswith(got) and got):
            raise Wrong(f"{one.host} read {one.path}, which was open: {explain(got)}\n  before {explain(one.may_be)}")

    def step_forget(self):
        if self.readers:
            self.close_quietly(self.readers.pop(self.chance.randrange(len(self.readers))))

    def step_list(self):
        host, folder = self.chance.choice(self.hosts), self.chance.choice("xy")
        if any(one.host is host and one.path.startswith(folder) for one in self.writers):
            return
        end = time.monotonic() + LAG
        while True:
            code, got = self.call(host, f"list {folder}", folder, lambda: set(os.listdir(host.at(folder))))
            if code is not None:
                return
            got = {name for name in got if not name.startswith(".")}
            inside = {path[2:]: may_be for path, may_be in self.there.items() if path.startswith(folder)}
            wrong = {name for name, may_be in inside.items() if (ABSENT if name not in got else "") not in
                     {ABSENT if one is ABSENT else "" for one in may_be}} | (got - set(inside))
            if not wrong:
                return
            if time.monotonic() > end:
                raise Wrong(f"{host} list {folder}: {sorted(got)}, wrong {sorted(wrong)}")
            time.sleep(0.2)

    def step_put(self):
        path = self.chance.choice(NAMES)
        data, text = self.fresh()
        self.say(f"P put {path} {text}")
        self.client.put(path, data)
        self.there[path] = {data}

    def step_get(self):
        path = self.chance.choice(NAMES)
        got = self.client.body(path)
        self.say(f"P get {path}")
        self.must(path, self.there[path], got, "P get")
        self.there[path] = {got}

    def step_weather(self):
        if not self.with_faults:
            return
        rules = self.chance.choice((STORM, LOSSES))
        self.say(f"P {rules[0]['name']}")
        self.proxy.set_rules(rules)
        self.after(self.chance.choice((0.3, 3)), self.fair)

    def fair(self):
        """The usual weather: rare faults."""
        if self.with_faults:
            self.proxy.set_rules(weather(self.seed + self.number))

    def calm(self):
        """None at all."""
        for timer in self.timers:
            timer.join()
        if self.with_faults:
            self.proxy.set_rules([])

    def after(self, seconds, act):
        self.timers = [one for one in self.timers if one.is_alive()] + [threading.Timer(seconds, act)]
        self.timers[-1].start()

    def step_kill(self):
        """Of one daemon and its supervisor, in the middle of something or not."""
        if not self.with_kills:
            return
        host = self.chance.choice(self.hosts)
        status = host.mount.status()
        pids = [status["pid"], status["supervisor_pid"]]

        def strike():
            host.killed = True
            processes.kill(pids)
        timer = threading.Timer(self.chance.random() * 0.1, strike)
        self.say(f"kill {host}")
        timer.start()
        while timer.is_alive():
            self.step([verb for verb in ("write", "create", "append", "rename", "unlink", "read", "close") if verb in self.MIXTURE])
        timer.join()
        processes.wait_until(lambda: not host.mount.processes(), what="killed processes gone")
        for one in [one for one in self.readers if one.host is host]:
            self.readers.remove(one)
            self.close_quietly(one)
        for one in [one for one in self.writers if one.host is host]:  # it was not closed: nothing was acknowledged
            self.writers.remove(one)
            self.close_quietly(one)
        self.calm()
        host.mount.start()
        self.fair()
        host.killed = False

    # -- the whole

    MIXTURE = {"write": 12, "close": 4, "create": 6, "append": 5, "unlink": 5, "rename": 6, "link": 3, "chmod": 3, "read": 14, "open": 6,
               "read_open": 10, "forget": 4, "list": 4, "put": 5, "get": 6, "weather": 0.8, "kill": 0.3}

    def step(self, verbs=None):
        verbs = verbs or list(self.MIXTURE)
        verb = self.chance.choices(verbs, [self.MIXTURE[one] for one in verbs])[0]
        self.counts[verb] += 1
        getattr(self, f"step_{verb}")()

    def run(self, count):
        for folder in "xy" if not self.counts else "":
            self.client.put(folder + "/", b"")
        self.fair()
        for _ in range(count):
            self.step()
        self.compare()

    def compare(self):
        """With nothing that fails any more, all see the same."""
        self.calm()
        while self.writers:
            self.step_close()
        for path in NAMES:
            got = self.client.body(path)
            self.must(path, self.there[path], got, "P get, at the end")
            for host in self.hosts:
                try:
                    seen = Path(host.at(path)).read_bytes()
                except FileNotFoundError:
                    seen = ABSENT
                self.must(path, {got}, seen, f"{host} read, at the end")
