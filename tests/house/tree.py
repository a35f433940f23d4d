"""The files that the rules look at, and the violations that they find."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

SUFFIXES = (".cpp", ".hpp", ".py")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)


@dataclass(frozen=True, order=True)
class Violation:
    file: str
    line: int
    text: str  # what is wrong, and what to do

    def __str__(self):
        return f"{self.file}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Include:
    name: str
    line: int
    ours: bool  # "in quotes"


class Tree:
    """Texts by name, relative to the top of the repository."""

    def __init__(self, texts):
        self.texts = dict(texts)
        self.names = sorted(self.texts)
        self.folders = {str(parent) for name in self.names for parent in PurePosixPath(name).parents}
        self.known = {}

    @classmethod
    def of(cls, top):
        """Tracked and new files of a repository; those that .gitignore names are not of the house."""
        patterns = [f"*{suffix}" for suffix in SUFFIXES]
        listed = subprocess.run(["git", "-C", top, "ls-files", "-zco", "--exclude-standard", "--", *patterns],
                                capture_output=True, check=True).stdout.decode().split("\0")
        present = (name for name in set(listed) if name and (Path(top) / name).is_file())
        return cls({name: (Path(top) / name).read_text(encoding="utf-8") for name in present})

    def code(self, *floors):
        """C++ files below these folders, or all of them."""
        return [name for name in self.names if name.endswith((".cpp", ".hpp")) and (not floors or is_below(name, *floors))]

    def headers(self, *floors):
        return [name for name in self.code(*floors) if name.endswith(".hpp")]

    def includes(self, name):
        if name not in self.known:
            text = self.texts[name]
            self.known[name] = [Include(found[2], text.count("\n", 0, found.start()) + 1, found[1] == '"')
                                for found in INCLUDE.finditer(text)]
        return self.known[name]


def is_below(name, *folders):
    return any(name == folder or name.startswith(f"{folder}/") for folder in folders)


def folder_of(name):
    return str(PurePosixPath(name).parent)


def leading_comment(text):
    """The lines before the first that is no // comment, without their slashes."""
    lines = []
    for line in text.split("\n"):
        if not line.startswith("//"):
            break
        lines.append(line[2:].strip())
    return lines
