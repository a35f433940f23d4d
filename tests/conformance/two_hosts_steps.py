"""The steps of two_hosts.py: what is done at random on two mounts and by a plain client, one call after the other, and what
must come of it where files are files: on a directory and on an NFS export. Buckets are in two_hosts_bucket.py."""

import collections
import errno
import os
import random
import stat
import time

import two_hosts_model as model
from two_hosts_calls import CHANGING, DEEPEST, HIDDEN, MOST_NAMES, NAMES, NEVER, TICK, Listing, getdents, renameat2
from two_hosts_files import FileSteps
from two_hosts_model import NOREPLACE, Wrong, above, below


class Steps(FileSteps):
    """`hosts`: the two mounts; `plain`: the Host that works in the source itself. `is_nfs`: what is promised of an export
    alone. `ttl`: seconds that a mount may believe what it knows, with some to spare; 0: none."""

    may_unlink_missing = False
    replay_client = None

    def __init__(self, hosts, plain, seed, ttl=0.0, is_nfs=False):
        self.hosts, self.plain, self.is_nfs = hosts, plain, is_nfs
        self.everybody = [*hosts, plain]
        self.chance, self.seed = random.Random(seed), seed
        self.names = model.Names(ttl)
        self.root = model.Node("d", 0o755)
        self.handles, self.listings = [], []
        self.writes = self.opened = self.number = 0
        self.last = collections.deque(maxlen=40)
        self.log = collections.deque(maxlen=30_000)  # for who wants to replay it
        self.counts = collections.Counter()
        self.kinds, self.weights = zip(*((getattr(self, "step_" + name), weight) for name, weight in self.mixture().items()))

    @staticmethod
    def mixture():
        return {"open": 16, "read": 14, "write": 14, "append": 3, "ftruncate": 4, "fsync": 4, "close": 9, "mapped": 2,
                "truncate": 3, "glance": 8, "stat": 6, "list": 4, "list_slowly": 6, "mkdir": 6, "rmdir": 4, "unlink": 6,
                "rename": 10, "link": 3, "chmod": 3, "put": 6}

    # -- the course of it

    def run(self, steps, every=400):
        for _ in range(steps):
            self.number += 1
            self.chance.choices(self.kinds, self.weights)[0]()
            if self.number % every == 0:
                self.compare()
        self.compare()

    def report(self, problem):
        return "\n".join([f"seed {self.seed}, step {self.number}", *self.last, f"WRONG: {problem}"])

    def say(self, text):
        self.last.append(f"{self.number}: {text}")
        self.log.append(text)

    def call(self, host, what, function, *allowed, stale=False):
        """Makes the call. `allowed`: for each thing that the host may believe the errors that it may fail with, none meaning
        success; the truth is the last. Returns the errno, or None and the result."""
        verb = what.split()[0]
        self.counts[verb] += 1
        if self.is_nfs and not host.is_mount and verb in CHANGING:
            time.sleep(TICK)
        try:
            result, code = function(), None
        except OSError as error:
            result, code = None, error.errno
        self.names.made()
        word = errno.errorcode.get(code, code) if code else "ok"
        self.say(f"{host.name} {what} -> {word}")
        if code is None:
            if any(not one for one in allowed):
                return None, result
        elif code not in NEVER and (any(code in one for one in allowed) or (stale and code == errno.ESTALE)):
            return code, None
        wanted = " or ".join(sorted({errno.errorcode[one] for codes in allowed for one in codes} |
                                    ({"success"} if any(not one for one in allowed) else set())))
        raise Wrong(f"{host.name} {what}: {word} instead of {wanted}")

    def settle(self, host, *paths):
        """Waits until the host knows the truth about what is there."""
        left = self.names.unsettled(host, *paths) if host.is_mount else 0
        if left > 0:
            self.say(f"({left * 1000:.0f} ms later)")
            time.sleep(left)

    def path(self, prefer=None):
        """A random path, more often than not one that is there, of this kind."""
        if prefer and self.chance.random() < 0.75:
            there = [path for path, node in self.names.now.items() if node.kind == prefer]
            if there:
                return self.chance.choice(sorted(there))
        if self.chance.random() < 0.85:
            folders = sorted([path for path, node in self.names.now.items() if node.is_dir and path.count("/") < DEEPEST - 1] + [""])
            return "/".join(filter(None, (self.chance.choice(folders), self.chance.choice(NAMES))))
        return "/".join(self.chance.choice(NAMES) for _ in range(self.chance.randint(1, DEEPEST)))

    def host(self, mounts_only=False):
        return self.chance.choice(self.hosts if mounts_only else self.everybody)

    def views(self, host, *paths):
        return self.names.views(host.name, *paths) if host.is_mount else [self.names.now]

    # -- names come and go

    def added(self, path, node):
        self.names.now[path] = node
        for one in self.listings:
            if self.names.get(above(path)) is one.node or (not above(path) and one.node is self.root):
                name = path.rpartition("/")[2]
                if name in one.ever:
                    one.again.add(name)
                one.ever.add(name)

    def removed(self, host, path):
        node = self.names.now.pop(path)
        for one in self.listings:
            if self.names.get(above(path)) is one.node or (not above(path) and one.node is self.root):
                one.always.discard(path.rpartition("/")[2])
        if node.is_dir:
            for one in [one for one in self.listings if one.node is node]:
                self.stop_listing(one)
        else:
            self.lost_a_name(host, path, node)

    def lost_a_name(self, host, path, node):
        node.links -= 1
        if node.links == 0:
            if self.is_nfs:
                users = {handle.host for handle in self.handles if handle.node is node}
                node.estranged |= {one for one in users if one is not host and one.is_mount}
                if host in users:
                    folder = self.names.get(above(path)) or self.root
                    folder.hides = True

    # -- steps: names

    def step_mkdir(self):
        host, path = self.host(), self.path()
        if len(self.names.now) > MOST_NAMES:
            return
        self.settle(host, above(path))
        mode = self.chance.choice((0o700, 0o755))
        self.names.note(host.name, path)
        code, _ = self.call(host, f"mkdir {path} {mode:o}", lambda: os.mkdir(host.at(path), mode),
                            *(model.of_mkdir(view, path) for view in self.views(host, path)))
        if code is None:
            self.must_be_possible(model.of_mkdir(self.names.now, path))
            self.added(path, model.Node("d", mode))
            self.names[path].met = set(self.everybody)

    def must_be_possible(self, errors):
        """A change that was acknowledged has been made to what is there, not to what was believed."""
        if errors:
            raise Wrong(f"succeeded, though by what is there it had to fail with {[errno.errorcode[one] for one in errors]}")

    def step_rmdir(self):
        host, path = self.host(), self.path("d")
        self.settle(host, above(path))
        if self.empties(host, path, lambda: os.rmdir(host.at(path)), f"rmdir {path}",
                        lambda view: model.of_rmdir(view, path)):
            self.removed(host, path)

    def empties(self, host, path, function, what, errors):
        """A call that needs an empty directory there. On NFS files that were removed while they were open are in the way."""
        node = self.names.get(path)
        hides = self.is_nfs and node is not None and node.is_dir and any(
            one.hides for other, one in self.names.now.items() if other == path)
        self.names.note(host.name, path)
        allowed = [errors(view) for view in self.views(host, path)]
        code, _ = self.call(host, what, function, *allowed, *([{errno.ENOTEMPTY}] if hides else []))
        if code == errno.ENOTEMPTY and hides and not any(errno.ENOTEMPTY in one for one in allowed):
            if not any(name.startswith(HIDDEN) for name in os.listdir(self.plain.at(path))):
                time.sleep(0.5)
                return self.empties(host, path, function, what, errors)
        if code is None:
            self.must_be_possible(errors(self.names.now))
        return code is None

    def step_unlink(self):
        host, path = self.host(), self.path("f")
        self.settle(host, above(path))
        self.names.note(host.name, path)
        code, _ = self.call(host, f"unlink {path}", lambda: os.unlink(host.at(path)),
                            *(model.of_unlink(view, path) for view in self.views(host, path)))
        if code is None:
            errors = model.of_unlink(self.names.now, path)
            if errors == {errno.ENOENT} and self.may_unlink_missing:
                return
            self.must_be_possible(errors)
            self.removed(host, path)

    def step_rename(self):
        host, old, new = self.host(), self.path(self.chance.choice("ffd")), self.path(self.chance.choice(("f", "d", None)))
        flags = NOREPLACE if self.chance.random() < 0.25 else 0
        if self.is_nfs and host is self.plain and old in self.names and self.names[old].is_dir:
            host = self.hosts[0]  # Ganesha goes on to look for ".." of a directory where it was, when that is moved behind its back
        self.settle(host, above(old), above(new), *self.tree_of(old), *self.tree_of(new))
        if new.count("/") + self.depth(old) > DEEPEST:
            return
        self.rename(host, old, new, flags)

    def depth(self, path):
        return max((one.count("/") - path.count("/") for one in self.names.now if below(path, one)), default=0)

    def tree_of(self, path):
        return [one for one in self.names.now if below(path, one)]

    def rename(self, host, old, new, flags):
        # A directory that another host moved, and that this one meets for the first time as an argument of a rename: the kernel
        # would have to move what it knows of it, and cannot while it renames (__d_unalias).
        for path in (old, new):
            node = self.names.get(path)
            if node is not None and node.is_dir and host.is_mount and host not in node.met:
                self.call(host, f"stat {path}", lambda path=path: os.stat(host.at(path)), set(), {errno.ENOENT})
                node.met.add(host)
        if not self.empties(host, new, lambda: renameat2(host.at(old), host.at(new), flags),
                            f"rename {old} {new}" + (" NOREPLACE" if flags else ""),
                            lambda view: model.of_rename(view, old, new, flags)):
            return
        self.names.note(host.name, *self.tree_of(old), old, new)
        self.renamed(host, old, new)

    def renamed(self, host, old, new):
        node = self.names[old]
        if self.names.get(new) is node:
            return
        if new in self.names:
            self.removed(host, new)
        for one in self.listings:
            if self.names.get(above(old)) is one.node or (not above(old) and one.node is self.root):
                one.always.discard(old.rpartition("/")[2])
        self.names.move(old, new)
        node.met = {host}
        self.added(new, node)

    def step_link(self):
        host, old, new = self.host(), self.path("f"), self.path()
        if len(self.names.now) > MOST_NAMES:
            return
        self.settle(host, above(old), above(new), old)
        self.names.note(host.name, old, new)
        code, _ = self.call(host, f"link {old} {new}", lambda: os.link(host.at(old), host.at(new), follow_symlinks=False),
                            *(model.of_link(view, old, new) for view in self.views(host, old, new)))
        if code is None:
            self.must_be_possible(model.of_link(self.names.now, old, new))
            self.linked(host, old, new)

    def linked(self, host, old, new):
        del host
        self.added(new, self.names[old])
        self.names[old].links += 1

    def before_chmod(self, path):
        """What must have ended before."""

    def step_chmod(self):
        host, path = self.host(), self.path(self.chance.choice("ffd"))
        self.before_chmod(path)
        node = self.names.get(path)
        mode = self.chance.choice((0o700, 0o755) if node is None or node.is_dir else (0o600, 0o644, 0o640, 0o755))
        self.settle(host, path)
        self.names.note(host.name, path)
        code, _ = self.call(host, f"chmod {path} {mode:o}", lambda: os.chmod(host.at(path), mode),
                            *(model.of_existing(view, path) for view in self.views(host, path)))
        if code is None:
            self.must_be_possible(model.of_existing(self.names.now, path))
            self.changed_mode(host, path, mode)

    def changed_mode(self, host, path, mode):
        del host
        self.names[path].mode = mode

    # -- steps: looking

    def sees(self, node, host):
        """(kind, mode, size) that stat of a path may say. Of the size: what others have written and not yet synced."""
        if node.is_dir:
            return {("d", node.mode, 0)}
        if self.names.ttl:
            since = time.monotonic() - self.names.ttl
            first = next((at for at in range(len(node.states)) if node.states[at + 1:at + 2] and node.states[at + 1][0] > since),
                         len(node.states) - 1)
            first = min(first, node.floor_for(host.name))
        else:
            first = node.floor_for(host.name) if host.is_mount or self.is_nfs else len(node.states) - 1
        return {("f", node.mode, len(data)) for _, _, data in node.states[first:]}

    def step_stat(self):
        host, path = self.host(), self.path(self.chance.choice(("f", "d", None)))
        self.settle(host, above(path))
        if self.names.get(path) is not None:
            self.settle(host, path)  # the mode has no states of its own here
        code, found = self.call(host, f"stat {path}", lambda: os.stat(host.at(path)),
                                *(model.of_existing(view, path) for view in self.views(host, path)))
        if code is not None:
            return
        is_dir = stat.S_ISDIR(found.st_mode)
        seen = ("d" if is_dir else "f", model.mode_of(found), 0 if is_dir else found.st_size)
        may_be = set().union(*(self.sees(view[path], host) for view in self.views(host, path) if path in view))
        node = self.names.get(path)
        is_on_its_way = node is not None and node.unsynced not in (None, host.name)
        if seen not in may_be and not (is_on_its_way and seen[:2] in {one[:2] for one in may_be}):
            raise Wrong(f"stat: {seen} instead of {sorted(may_be)}")

    def listable(self, host):
        path = self.chance.choice(sorted(one for one, node in self.names.now.items() if node.is_dir) + [""])
        self.settle(host, path)
        return path

    def step_list(self):
        host = self.host()
        path = self.listable(host)
        self.look_at_list(host, path)

    def look_at_list(self, host, path):
        _, found = self.call(host, f"list {path or '.'}", lambda: os.listdir(host.at(path)), set())
        found = [name for name in found if not (self.is_nfs and name.startswith(HIDDEN))]
        views = [self.names.folder(path, view) for view in self.all_views(host, path)]
        if len(set(found)) != len(found) or not set.intersection(*views) <= set(found) <= set.union(*views):
            raise Wrong(f"list: {sorted(found)} instead of {sorted(views[-1])}")

    def all_views(self, host, path):
        """What the host may believe of the names in a directory."""
        return self.names.views("", path) if host.is_mount else [self.names.now]

    def step_list_slowly(self):
        """Opens a directory, or reads on in one with a buffer of a few names, while others change it."""
        if len(self.listings) < 4 and self.chance.random() < 0.3:
            host = self.host(mounts_only=True)
            path = self.listable(host)
            _, descriptor = self.call(host, f"opendir {path or '.'}",
                                      lambda: os.open(host.at(path), os.O_RDONLY | os.O_DIRECTORY), set())
            self.opened += 1
            views = [self.names.folder(path, view) for view in self.all_views(host, path)]
            self.say(f"  it is l{self.opened}")
            self.listings.append(Listing(self.opened, host, descriptor, self.names.get(path) or self.root, views))
        elif self.listings:
            one = self.chance.choice(self.listings)
            _, names = self.call(one.host, f"getdents l{one.number}", lambda: getdents(one.descriptor, 64), set())
            self.say(f"  {names}")
            for name in names or []:
                if not (self.is_nfs and name.startswith(HIDDEN)):
                    one.seen[name] += 1
            if names is None:
                self.stop_listing(one)
                # Ganesha's cookies of a name that came while others read the directory change: it may come twice there.
                twice = {name for name, count in one.seen.items() if count > 1} - one.again
                twice &= one.always if self.is_nfs else twice
                if twice or not one.always <= set(one.seen) <= one.ever:
                    raise Wrong(f"l{one.number}: {sorted(one.seen.elements())}, always there {sorted(one.always)}, "
                                f"now and then {sorted(one.ever)}")

    def stop_listing(self, one):
        os.close(one.descriptor)
        self.listings.remove(one)

    # -- the whole

    def compare(self):
        """Closes everything; then all see the same."""
        for handle in list(self.handles):
            self.close(handle)
        for one in list(self.listings):
            self.stop_listing(one)
        if self.names.ttl:
            time.sleep(self.names.ttl)
        if self.is_nfs:
            self.wait_for_hidden()
        for host in self.everybody:
            self.compare_one(host)
        for node in self.names.now.values():
            node.hides, node.states, node.synced = False, node.states[-1:], 0
        self.root.hides = False

    def wait_for_hidden(self):
        end = time.monotonic() + 30
        while any(name.startswith(HIDDEN) for _, _, files in os.walk(self.plain.root) for name in files):
            if time.monotonic() > end:
                raise Wrong("hidden names are left")
            time.sleep(0.02)

    def compare_one(self, host):
        def collect():
            found = {}
            for folder, folders, files in os.walk(host.root):
                for name in folders + files:
                    path = os.path.join(folder, name)
                    attributes = os.lstat(path)
                    data = None
                    if not stat.S_ISDIR(attributes.st_mode):
                        with open(path, "rb") as file:
                            data = file.read()
                    found[os.path.relpath(path, host.root)] = (attributes, data)
            return found
        _, found = self.call(host, "compare", collect, set())
        self.expect_tree(host, {path: (model.mode_of(attributes), attributes.st_size, data)
                                for path, (attributes, data) in found.items()})

    def expect_tree(self, host, found):
        if set(found) != set(self.names.now):
            raise Wrong(f"{host.name}: too many {sorted(set(found) - set(self.names.now))}, "
                        f"lacking {sorted(set(self.names.now) - set(found))}")
        for path, (mode, size, data) in found.items():
            node = self.names[path]
            if mode != node.mode:
                raise Wrong(f"{host.name} {path}: mode {mode:o} instead of {node.mode:o}")
            if not node.is_dir and (data != node.data or size != len(node.data)):
                raise Wrong(f"{host.name} {path}: size {size}, {model.explain(data)}\n  instead of {model.explain(node.data)}")

    def end(self):
        """Whatever happened: nothing stays open."""
        for one in [*self.handles, *self.listings]:
            try:
                os.close(one.descriptor)
            except OSError:
                pass
        self.handles, self.listings = [], []
