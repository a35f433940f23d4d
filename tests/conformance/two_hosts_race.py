"""Processes on two mounts and a plain client that work on a few names at the same time. Nobody knows in which order, so only
this is looked at: what is read is one version from its first byte to its last; the last state of a name is one that nothing
acknowledged came after; of those who make a name that must be new one has made it; names that stay are listed once."""

import errno
import json
import os
import random
import signal
import time

import two_hosts_model as model
from two_hosts_model import Wrong

WORKERS = 2  # on each mount
NAMES = ["f0", "f1", "f2"]
SIZES = (1, 5000, 70_000, 300_000, 1)
STAYING = [f"stay{number}" for number in range(40)]
GONE = {errno.ENOENT}
LONGEST = 1 << 40


def content(number):
    return model.piece(number, 0, SIZES[number % len(SIZES)])


def version(data):
    """The number of the write that all of these bytes are of."""
    block = data[:31]
    if len(data) == 1:
        return None  # one byte says nothing
    try:
        number = model.number_of(block[:15])
    except ValueError:
        raise Wrong(f"bytes of nobody: {model.explain(data)}") from None
    if data != content(number):
        raise Wrong(f"not the whole of write {number}, nor of any: {model.explain(data)}\n instead of {model.explain(content(number))}")
    return number


class Worker:
    """One process. `client`: the plain client of a bucket, else None; root: the folder it works in."""

    def __init__(self, which, root, kind, seed, client=None):
        self.which, self.root, self.kind, self.client = which, root, kind, client
        self.chance = random.Random(seed * 1000 + which)
        self.number, self.log = 0, []

    def at(self, name):
        return os.path.join(self.root, name)

    def next(self):
        self.number += 1
        return self.which * 1_000_000 + self.number

    def note(self, name, number, began):
        self.log.append((name, number, began, time.monotonic()))

    def run(self, rounds):
        kinds = [self.write] * 4 + [self.read] * 6 + [self.remove, self.commit, self.look, self.churn]
        if self.client:
            kinds = [self.put] * 3 + [self.get] * 2 + [self.delete]
        for _ in range(rounds):
            self.chance.choice(kinds)()

    def allowed(self, call, *codes):
        try:
            return call()
        except OSError as error:
            if error.errno not in codes:
                raise Wrong(f"worker {self.which}: {call.__name__}: {errno.errorcode.get(error.errno)} {error}") from error
            return None

    def write(self):
        """The whole of a file: under its name on a bucket, where a close makes it the object; beside it and moved, elsewhere."""
        name, number = self.chance.choice(NAMES), self.next()
        data, began = content(number), time.monotonic()
        place = self.at(name) if self.kind == "s3" and name == self.own() else self.at(f"tmp{self.which}")

        def make():
            with open(place, "wb", buffering=0) as file:
                file.write(data[:len(data) // 2])
                file.write(data[len(data) // 2:])
                if self.chance.random() < 0.3:
                    os.fsync(file.fileno())
            if place != self.at(name):
                os.rename(place, self.at(name))
            return True
        # On a bucket the kernel may have found the name and another host taken it before the open.
        if self.allowed(make, *(GONE | {errno.ESTALE} if self.kind == "s3" else ())):
            self.note(name, number, began)
        else:
            self.note(name, -number, began)  # nobody knows

    def own(self):
        """What this mount writes in place: those who read it there would see it half written."""
        return NAMES[self.which // 10 - 1] if self.which < 30 else None

    def read(self):
        """Piece by piece: one version, with the size that it says."""
        name = self.chance.choice([name for name in NAMES if name != self.own()])

        def pieces():
            descriptor = os.open(self.at(name), os.O_RDONLY)
            try:
                if self.chance.random() < 0.3:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
                found, size = [], None
                while True:
                    piece = os.pread(descriptor, self.chance.choice((4096, 10_000, 300_000)), sum(map(len, found)))
                    size = os.fstat(descriptor).st_size if size is None else size
                    if not piece:
                        break
                    found.append(piece)
                    if self.chance.random() < 0.1:
                        time.sleep(0.005)
                return b"".join(found), size
            finally:
                os.close(descriptor)
        # Of a name that is replaced twice between the look-up and the open; what a directory had is held meanwhile.
        got = self.allowed(pieces, *GONE, *(() if self.kind == "directory" else (errno.ESTALE,)))
        if got is None:
            return
        data, size = got
        if len(data) != size:
            raise Wrong(f"{name}: {len(data)} bytes, and fstat says {size}: {model.explain(data)}")
        if not data:
            raise Wrong(f"{name} is empty")
        version(data)

    def remove(self):
        name, began = self.chance.choice(NAMES), time.monotonic()
        if self.allowed(lambda: os.unlink(self.at(name)) or True, *GONE, *({errno.ESTALE} if self.kind == "s3" else ())):
            self.note(name, None, began)

    def commit(self):
        """As those do who publish the next version of a table: a file is made beside, and linked where none may be."""
        name, number = f"commit{self.chance.randrange(30)}", self.next()
        place = self.at(f"tmp{self.which}")
        with open(place, "wb") as file:
            file.write(content(number))
        if self.allowed(lambda: os.link(place, self.at(name)) or True, errno.EEXIST):
            self.log.append((name, number, 0, LONGEST))
        os.unlink(place)

    def look(self):
        found = os.listdir(self.at("."))
        staying = [name for name in found if name.startswith("stay")]
        if sorted(staying) != sorted(STAYING):
            raise Wrong(f"listed {sorted(staying)}")
        # Ganesha may list a name twice that comes while it is asked.
        if self.kind != "nfs" and len(found) != len(set(found)):
            raise Wrong(f"listed twice: {sorted(found)}")

    def churn(self):
        name = self.at(f"churn{self.which}-{self.chance.randrange(5)}")
        if self.chance.random() < 0.5:
            with open(name, "wb"):
                pass
            os.stat(name)
        else:
            self.allowed(lambda: os.unlink(name), *GONE)

    # -- the plain client of a bucket

    def put(self):
        name, number, began = self.chance.choice(NAMES), self.next(), time.monotonic()
        self.client.put(name, content(number))
        self.note(name, number, began)

    def get(self):
        data = self.client.body(self.chance.choice(NAMES))
        if data:
            version(data)

    def delete(self):
        name, began = self.chance.choice(NAMES), time.monotonic()
        self.client("", "delete", [name])
        self.note(name, None, began)


def run_worker(worker, rounds, path):
    """In a process of its own; what it did is in the file."""
    child = os.fork()
    if child:
        return child
    said = {"wrong": "it ended"}
    try:
        worker.run(rounds)
        said = {"log": worker.log}
    except (Wrong, OSError) as problem:
        said = {"wrong": f"worker {worker.which} after {worker.number}: {type(problem).__name__} {problem}"}
    finally:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(said, file)
        os._exit(0)


def race(kind, roots, folder, seed, rounds, fresh_client=None, settle=1.0):
    """`roots`: of the two mounts, and of the plain client where it has one. `fresh_client`: makes a plain client of a bucket."""
    for name in STAYING:
        with open(os.path.join(roots[0], name), "wb"):
            pass
    time.sleep(settle)
    workers = [Worker(10 * place + number, root, kind, seed) for place, root in enumerate(roots, 1) for number in range(WORKERS)]
    if fresh_client:
        workers.append(Worker(90, None, kind, seed, fresh_client()))
    paths = [os.path.join(folder, f"worker{one.which}.json") for one in workers]
    children = [run_worker(one, rounds, path) for one, path in zip(workers, paths)]
    try:
        while children:
            os.waitpid(children[-1], 0)
            children.pop()
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
    done, problems = [], []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            said = json.load(file)
        problems += [said["wrong"]] if "wrong" in said else []
        done += said.get("log", [])
    if problems:
        raise Wrong("\n".join([f"seed {seed}", *problems]))
    time.sleep(settle)
    finish(kind, roots, done, fresh_client() if fresh_client else None, seed)
    return len(done)


def finish(kind, roots, done, client, seed):
    """What is there in the end, for all alike."""
    def body(root, name):
        try:
            with open(os.path.join(root, name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None
    del kind
    for name in sorted({one[0] for one in done}):
        found = [body(root, name) for root in roots] + ([client.body(name)] if client else [])
        if any(one != found[0] for one in found):
            raise Wrong(f"seed {seed}: {name} differs: " + "; ".join("none" if one is None else model.explain(one) for one in found))
        acts = [(number, began, ended) for what, number, began, ended in done if what == name]
        if name.startswith("commit"):
            if len(acts) != 1 or found[0] != content(acts[0][0]):
                raise Wrong(f"seed {seed}: {name} was made by {acts}, and is {found[0] and model.explain(found[0])}")
            continue
        last = max(began for number, began, _ in acts if number is None or number > 0)
        may_be = [None if number is None else content(abs(number)) for number, _, ended in acts
                  if ended >= last or (number is not None and number < 0)]
        if found[0] not in may_be:
            raise Wrong(f"seed {seed}: {name} is {found[0] and model.explain(found[0])} in the end, and something acknowledged came after")
