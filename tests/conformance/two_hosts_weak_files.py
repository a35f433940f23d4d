"""The steps of two_hosts_faults.py on a directory or an export, and their plain client."""

import errno
import os
from pathlib import Path

from two_hosts_model import Wrong
from two_hosts_weak import ABSENT, Weak


def cut_connections(seed):
    """Of an export: after some bytes of answers, so that calls are sent again that were done."""
    return [{"name": f"cut after {count}", "match": {"kind": "connection", "probability": 0.3, "seed": seed + count},
             "faults": [{"do": "reset", "after": count}]} for count in (3_000, 50_000, 1_000_000)]


class Folder:
    """The plain client where it works in the folder itself: it replaces files."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def put(self, path, body):
        if path.endswith("/"):
            (self.folder / path).mkdir()
            return
        (self.folder / ".plain").write_bytes(body)
        os.replace(self.folder / ".plain", self.folder / path)

    def body(self, path):
        try:
            return (self.folder / path).read_bytes()
        except FileNotFoundError:
            return ABSENT


class WeakFiles(Weak):
    """Of a directory or an export: who writes replaces the file, or makes one that was not there."""

    MIXTURE = {verb: weight for verb, weight in Weak.MIXTURE.items() if verb not in ("append", "close", "link")}

    def step_write(self):
        host, path = self.pick()
        if host is None:
            return
        self.number += 1
        temporary = f"{path[0]}/.{self.number}"
        code, data, descriptor = self.write(host, temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        if descriptor is not None:
            for what, act in (("fsync", os.fsync), ("close", os.close)):
                failed, _ = self.call(host, f"{what} {temporary}", temporary, lambda act=act: act(descriptor))
                code = code or failed
        if code is not None:
            return
        self.let_go(host, path)
        code, _ = self.call(host, f"rename {temporary} {path}", temporary, lambda: os.rename(host.at(temporary), host.at(path)), errno.ENOENT)
        # ENOENT: it was done, and the answer was lost; there is no second request that could tell.
        if code is None:
            self.there[path] = {data}
        else:
            self.maybe(path, data)

    def finished(self, path, data, code):
        """A file that was to be made is there in part, and stays as it is."""
        if code is None:
            self.there[path] = {data}
            return
        found = self.client.body(path)
        if found not in self.there[path] and not (found is not ABSENT and data.startswith(found)):
            raise Wrong(f"{path}, which was to be made: {self.word(found)}\n  instead of a part of {self.word(data)}")
        self.there[path] = {found}

    def knows_what_was_renamed(self):
        """A request that was done and is sent again finds nothing."""
        return not self.with_faults

    def step_weather(self):
        """The server is away for a moment."""
        if not self.with_faults:
            return
        self.say("P refuses")
        self.calm()
        self.proxy.refuse()
        self.after(self.chance.choice((0.3, 3)), lambda: self.proxy.refuse(False))

    def fair(self):
        if self.with_faults:
            self.proxy.set_rules(cut_connections(self.seed + self.number))
