"""Sources that clang-tidy has found nothing in: remembered beside what ccache keeps, by the hash of all that it read."""

import hashlib
import json
import re
import shutil
import subprocess
import time
from pathlib import Path

from kinds import TOP

INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
KEPT_SECONDS = 30 * 24 * 3600


def output(*words):
    return subprocess.run(words, capture_output=True, check=False, cwd=TOP).stdout


class KnownClean:
    """Without ccache nothing is remembered. Headers of the system count by the packages that are installed; our own by
    their bytes, those alone that a source includes, by whatever way."""

    def __init__(self, build):
        self.build, self.folder, self.digests, self.read, self.hits = build, None, {}, {}, 0
        if shutil.which("ccache") is None:
            return
        self.folder = Path(output("ccache", "--get-config", "cache_dir").decode().strip()) / "tierfs-tidy"
        self.folder.mkdir(parents=True, exist_ok=True)
        for one in self.folder.iterdir():
            if time.time() - one.stat().st_mtime > KEPT_SECONDS:
                one.unlink(missing_ok=True)
        self.common = hashlib.sha256(output("clang-tidy", "--version") + (TOP / ".clang-tidy").read_bytes()
                                     + output("dpkg-query", "-W", "-f", "${Package} ${Version}\n")).digest()
        self.commands = {Path(entry["file"]): entry["command"].replace(str(TOP), "")
                         for entry in json.loads((build / "compile_commands.json").read_text())}

    def knows(self, name):
        """True: nothing that it would read has changed since it was clean."""
        if self.folder is None or (TOP / name) not in self.commands:
            return False
        mark = self.folder / self.digest(name)
        if not mark.exists():
            return False
        mark.touch()
        self.hits += 1
        return True

    def remember(self, name):
        """Unless something was edited meanwhile."""
        if self.folder is None or (TOP / name) not in self.commands:
            return
        if any(self.stamp(path) != self.read[path][0] for path in self.read_by(TOP / name)):
            return
        (self.folder / self.digest(name)).touch()

    def digest(self, name):
        if name not in self.digests:
            total = hashlib.sha256(self.common + self.commands[TOP / name].encode())
            for path in sorted(self.read_by(TOP / name)):
                total.update(str(path).removeprefix(str(TOP)).encode() + self.content(path)[0])
            self.digests[name] = total.hexdigest()
        return self.digests[name]

    def read_by(self, source):
        """The source and all of our headers that it includes."""
        found, todo = set(), [source]
        while todo:
            path = todo.pop()
            if path in found:
                continue
            found.add(path)
            for include in self.content(path)[1]:
                todo += [place for place in (TOP / include, self.build / include, path.parent / include) if place.is_file()]
        return found

    @staticmethod
    def stamp(path):
        status = path.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino

    def content(self, path):
        """Its digest, and what it includes; read once."""
        if path not in self.read:
            stamp, data = self.stamp(path), path.read_bytes()
            self.read[path] = (stamp, hashlib.sha256(data).digest(), [include.decode() for include in INCLUDE.findall(data)])
        return self.read[path][1:]
