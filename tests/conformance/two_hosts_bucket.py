"""The steps of two_hosts.py on a bucket: a file is a version that one host wrote, as a whole, when it closed it or synced it."""

import errno
import os
import stat
import time

import two_hosts_model as model
from two_hosts_calls import renameat2
from two_hosts_client import Client
from two_hosts_model import NOREPLACE, Wrong, above, below
from two_hosts_steps import Steps
from two_hosts_versions import MIB, VersionSteps

LAG = 3  # seconds that a LIST of RGW 16 may lag a PUT


class BucketSteps(VersionSteps, Steps):
    def __init__(self, hosts, client, bucket, seed, ttl=0.0):
        self.client = self.replay_client = Client(client, bucket)
        super().__init__(hosts, self.client, seed, ttl)
        self.everybody = list(hosts)
        self.copies = {host: {} for host in hosts}  # by path: what is open there
        self.may_unlink_missing = ttl > 0

    @staticmethod
    def mixture():
        return {**Steps.mixture(), "put": 10, "delete": 4, "copy": 3, "plain_list": 2, "rename": 7, "mkdir": 4}

    # -- what a host sees

    def overlay(self, host, view):
        """Files that were made there and are not yet at the bucket are seen there alone."""
        made = {path: self.as_node(copy) for path, copy in self.copies[host].items() if copy.version is None and path not in view}
        return {**view, **made} if made else view

    @staticmethod
    def as_node(copy):
        return model.Node("f", copy.mode, copy.may_be[0])

    def views(self, host, *paths):
        if host is self.plain:
            return [self.names.now]
        return self.overlaid(host, super().views(host, *paths))

    def all_views(self, host, path):
        return self.overlaid(host, super().all_views(host, path)) if host.is_mount else [self.names.now]

    def overlaid(self, host, views):
        """What is still written there and was removed elsewhere may be seen there, or not."""
        lost = {path: self.as_node(copy) for path, copy in self.copies[host].items()
                if self.is_held(copy)}
        views = [self.overlay(host, view) for view in views]
        return [{**lost, **views[-1]}, *views] if lost else views

    def contents(self, host, path):
        """What may be read at the path by who opens it now."""
        node, copy = self.names.get(path), self.copies[host].get(path)
        found = [] if node is None or node.is_dir else [node.data]
        if copy is not None and not copy.lost:
            return copy.may_be
        if copy is not None and self.is_held(copy):
            return found + copy.may_be
        return found

    def is_held(self, copy):
        """Another host has replaced what this one has open for writing: until its close, who opens the name here gets the one or
        the other, or ESTALE."""
        return copy.lost and (copy.dirty or copy.version is None or any(one.node is copy and one.writes for one in self.handles))

    def replaced(self, host, path):
        """Another object, or none, is there from now on: of whoever else has it open."""
        for other in self.hosts:
            if other is not host:
                for copy in self.opened_copies(other):
                    if copy.path is not None and (copy.path == path or below(path, copy.path)):
                        copy.lost = True

    def added(self, path, node):
        super().added(path, node)
        if not node.is_dir:
            for copy in {id(handle.node): handle.node for handle in self.handles}.values():
                if copy.last_path == path and not copy.seen and not copy.dirty and node.data not in copy.later:
                    copy.later.append(node.data)

    def opened_copies(self, host):
        return {id(handle.node): handle.node for handle in self.handles if handle.host is host}.values()

    def close_dirty(self, host, *paths):
        """What would end in ways that nobody can tell: files that others still write there. All of them if host is None."""
        for handle in [one for one in self.handles if one.host is not host and one.writes]:
            copy = handle.node
            if copy.path is not None and any(copy.path == path or below(path, copy.path) for path in paths) and handle in self.handles:
                self.close(handle)

    def adopt(self, host, path, *may_be):
        """Asks the plain client what is there now: None, or bytes, and one of these."""
        found = self.client.body(path)
        if found not in may_be:
            raise Wrong(f"P get {path}: {'nothing' if found is None else model.explain(found)}\n  instead of " +
                        "\n  or ".join("nothing" if one is None else model.explain(one) for one in may_be))
        old = self.names.get(path)
        if found is None:
            if old is not None:
                self.names.note(host.name, path)
                self.removed(host, path)
        elif old is None or old.data != found:
            self.names.note(host.name, path)
            mode = old.mode if old is not None else 0o644
            if old is not None:
                self.removed(host, path)
            self.added(path, model.Node("f", mode, found))
        return found

    def mode_there(self, path, *may_be):
        found = int(self.client.head(path)["Metadata"].get("mode", "0")) & 0o7777 or 0o644
        if found not in may_be:
            raise Wrong(f"P {path}: mode {found:o} instead of {[oct(one) for one in may_be]}")
        return found

    def lost_a_name(self, host, path, node):
        self.replaced(host, path)

    # -- steps: names

    def step_mkdir(self):
        host, path = self.chance.choice([*self.hosts, self.plain]), self.path()
        if len(self.names.now) > 40:
            return
        self.close_dirty(host, path)
        if host is self.plain:
            if not model.of_mkdir(self.names.now, path) and not any(path in copies for copies in self.copies.values()):
                self.say(f"P mkdir {path}")
                self.names.note("P", path)
                self.client.put(path + "/", b"")
                self.added(path, model.Node("d", 0o755))
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

    def step_rmdir(self):
        path = self.path("d")
        self.close_dirty(None, path)
        host = self.host()
        self.settle(host, above(path))
        if self.empties(host, path, lambda: os.rmdir(host.at(path)), f"rmdir {path}", lambda view: model.of_rmdir(view, path)):
            self.removed(host, path)

    def step_unlink(self):
        host, path = self.host(), self.path("f")
        self.settle(host, above(path))
        views = self.views(host, path)
        self.names.note(host.name, path)
        code, _ = self.call(host, f"unlink {path}", lambda: os.unlink(host.at(path)),
                            *(model.of_unlink(view, path) for view in views))
        if code is not None:
            return
        copy = self.copies[host].pop(path, None)
        if copy is not None:
            copy.path = None
        if path in self.names and not self.names[path].is_dir:
            if copy is not None and copy.lost:
                self.adopt(host, path, None, self.names[path].data)
            else:
                self.removed(host, path)
                self.adopt(host, path, None)

    def step_rename(self):
        host, old, new = self.host(), self.path(self.chance.choice("ffd")), self.path(self.chance.choice(("f", "d", None)))
        if new.count("/") + self.depth(old) > 2:
            return
        flags = NOREPLACE if self.chance.random() < 0.25 else 0
        for path in (old, new):
            node = self.names.get(path)
            self.close_dirty(None if node is not None and node.is_dir else host, path)
            if path in self.copies[host] and self.copies[host][path].lost and self.copies[host][path].dirty:
                self.close_dirty(None, path)
        self.settle(host, above(old), above(new), *self.tree_of(old), *self.tree_of(new))
        copy = self.copies[host].get(old)
        there = self.names.get(old)
        is_alike = copy is not None and there is not None and there.data in copy.may_be  # nobody could tell if it was published
        if old == new or (copy is not None and copy.dirty and (is_alike or self.chance.random() < 0.5)):
            self.close_dirty(None, old)
        self.names.note(host.name, *self.tree_of(old), old, new)
        code, _ = self.call(host, f"rename {old} {new}" + (" NOREPLACE" if flags else ""),
                            lambda: os.rename(host.at(old), host.at(new)) if not flags else renameat2(host.at(old), host.at(new), NOREPLACE),
                            *(model.of_rename(one, old, new, flags) for one in self.views(host, old, new)))
        if code is not None or old == new:
            return
        self.must_be_possible(model.of_rename(self.overlay(host, self.names.now), old, new, flags))
        copies = self.copies[host]
        for path in [path for path in copies if path == new or below(new, path)]:
            copies.pop(path).path = None
        moved = {path: copies.pop(path) for path in list(copies) if path == old or below(old, path)}
        before = self.names.get(old)
        if before is not None:
            for one in [one for one in self.listings if any(self.names[path] is one.node for path in [old, *self.tree_of(old)])]:
                self.stop_listing(one)  # a directory is moved name by name
            self.replaced(host, old)
            self.renamed(host, old, new)
        for path, one in moved.items():
            one.path = new + path[len(old):]
            copies[one.path] = one
            if one.dirty or one.version is None:
                found = self.adopt(host, one.path, None if before is None else before.data, *one.may_be)
                if found in one.may_be:
                    one.is_published(found, self.names[one.path])
        self.replaced(host, new)

    def step_link(self):
        path = self.path("f")
        self.close_dirty(None, path)
        host, new = self.host(), self.path()
        self.close_dirty(None, new)
        if len(self.names.now) > 40:
            return
        self.settle(host, above(path), above(new), path)
        self.names.note(host.name, new)
        code, _ = self.call(host, f"link {path} {new}", lambda: os.link(host.at(path), host.at(new), follow_symlinks=False),
                            *(model.of_link(view, path, new) for view in self.views(host, path, new)))
        if code is None:
            self.must_be_possible(model.of_link(self.names.now, path, new))
            self.added(new, model.Node("f", self.names[path].mode, self.names[path].data))

    def before_chmod(self, path):
        self.close_dirty(None, path)

    def changed_mode(self, host, path, mode):
        self.names[path].mode = mode
        if path in self.copies[host] and not self.copies[host][path].lost:
            self.copies[host][path].mode = mode
        if len(self.names[path].data) > 4 * MIB:  # what was sent in parts gets another ETag with its copy
            self.replaced(host, path)

    # -- steps: looking

    def sees(self, node, host):
        if node.is_dir:
            return {("d", node.mode, 0)}
        return {("f", node.mode, len(node.data))}

    def step_stat(self):
        host, path = self.host(), self.path(self.chance.choice(("f", "d", None)))
        self.settle(host, path)
        code, found = self.call(host, f"stat {path}", lambda: os.stat(host.at(path)),
                                *(model.of_existing(view, path) for view in self.views(host, path)))
        if code is not None:
            return
        node, copy = self.names.get(path), self.copies[host].get(path)
        if stat.S_ISDIR(found.st_mode):
            may_be = {("d", node.mode, 0)} if node is not None and node.is_dir else set()
            seen = ("d", model.mode_of(found), 0)
        else:
            modes = {one.mode for one in (node, copy) if one is not None}
            may_be = {("f", mode, len(data)) for data in self.contents(host, path) for mode in modes}
            seen = ("f", model.mode_of(found), found.st_size)
        if seen not in may_be:
            raise Wrong(f"stat: {seen} instead of {sorted(may_be)}")

    def look_at_list(self, host, path):
        end = time.monotonic() + LAG
        while True:
            try:
                return super().look_at_list(host, path)
            except Wrong:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def step_plain_list(self):
        path = self.listable(self.plain)
        found, prefix = set(), path + "/" if path else ""
        end = time.monotonic() + LAG
        while True:
            found = {key[len(prefix):].split("/")[0] for key in self.client.keys(prefix)} - {""}
            if found == self.names.folder(path):
                return
            if time.monotonic() > end:
                raise Wrong(f"P list {path}: {sorted(found)} instead of {sorted(self.names.folder(path))}")
            time.sleep(0.2)

    def glance(self, host, path):
        views = self.views(host, path)

        def read():
            with open(host.at(path), "rb", buffering=0) as file:
                return file.readall()
        is_settled = not self.names.unsettled(host.name, path)
        errors = [model.of_open(view, path, False, False, True) for view in views]
        copy = self.copies[host].get(path)
        is_held = copy is not None and self.is_held(copy)
        if is_held:
            errors.insert(0, {errno.ESTALE})
        code, got = self.call(host, f"read all of {path}", read, *errors, stale=not is_settled)
        if code is not None:
            return
        may_be = self.contents(host, path) + [view[path].data for view in views[:-1] if path in view and not view[path].is_dir]
        if got not in may_be:
            raise Wrong(f"read of all of {path}: {model.explain(got)}\n  instead of " + "\n  or ".join(map(model.explain, may_be)))

    def step_glance(self):
        host, path = self.host(), self.path("f")
        copy = self.copies[host].get(path)
        if copy is not None and (copy.dirty or copy.version is None):
            return  # its close may publish
        self.settle(host, path if self.chance.random() < 0.5 else above(path))
        self.glance(host, path)

    # -- steps: the plain client

    def step_put(self):
        path = self.path("f")
        node = self.names.get(path)
        if len(self.names.now) > 40 or model.way(self.names.now, path) or (node is not None and node.is_dir):
            return
        number, size = self.fresh(0)[0], self.chance.choice((0, 1, 100, 4096, 10_000, 70_000))
        if self.chance.random() < 0.03:
            size = 9 * MIB
        data = model.piece(number, 0, size)
        self.say(f"P put {path} {size} as write {number}")
        self.client.put(path, data)
        self.put_there(path, data)

    def put_there(self, path, data):
        self.names.note("P", path)
        self.replaced(self.plain, path)
        if path in self.names:
            self.removed(self.plain, path)
        self.added(path, model.Node("f", 0o644, data, "P"))

    def step_delete(self):
        path = self.path("f")
        if path not in self.names or self.names[path].is_dir:
            return
        folder = above(path)
        if folder:
            if not any(key == folder + "/" for key in self.client.keys(folder + "/")):
                self.say(f"P mkdir {folder}")
                self.client.put(folder + "/", b"")
        self.say(f"P delete {path}")
        self.client("", "delete", [path])
        self.names.note("P", path)
        self.replaced(self.plain, path)
        self.removed(self.plain, path)

    def step_copy(self):
        old, new = self.path("f"), self.path()
        there, target = self.names.get(old), self.names.get(new)
        if there is None or there.is_dir or model.way(self.names.now, new) or (target is not None and target.is_dir) or old == new:
            return
        self.say(f"P copy {old} {new}")
        self.client.copy(old, new)
        self.put_there(new, there.data)
        self.names[new].mode = there.mode

    # -- the whole

    def compare(self):
        super().compare()
        end = time.monotonic() + LAG
        while True:
            found = {key.rstrip("/") for key in self.client.keys()}
            lacking = {path for path in self.names.now if path not in found and not any(below(path, key) for key in found)}
            if not lacking and found <= set(self.names.now):
                break
            if time.monotonic() > end:
                raise Wrong(f"P: too many {sorted(found - set(self.names.now))}, lacking {sorted(lacking)}")
            time.sleep(0.2)
        for path, node in list(self.names.now.items()):
            if not node.is_dir:
                self.adopt(self.plain, path, node.data)

    def compare_one(self, host):
        end = time.monotonic() + LAG
        while True:
            try:
                return super().compare_one(host)
            except (Wrong, FileNotFoundError):
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
