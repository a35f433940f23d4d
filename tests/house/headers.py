"""Rules about who includes a header: those for one folder alone, and heavy ones of libraries."""

import re

import exceptions
from tree import Violation, folder_of, is_below, leading_comment

INTERNAL = re.compile(r"\bInternal to ([\w/]*\w(?:(?:, | and )[\w/]*\w)*)")
# Other words for the same, which no rule would find.
OTHER_WORDS = re.compile(r"\b[Oo]nly `?[\w/.*-]+`? (?:may include|includes)\b|\b[a-z_]+/[\w/.*]+ only\b|\bnobody else includes\b|"
                         r"\binclude it, nobody else\b|\bFor [\w/.*]+ and (?:its )?tests\b|\bInternal to `|/ and its tests\b|"
                         r"\b[Uu]sed by [\w/.]+ (?:alone|only)\b")

# Headers of libraries that are slow to compile, or whose types belong to one folder: where they may be included, headers and
# sources alike.
HEAVY = {
    "rocksdb/": ("tiering/index",),
    "fuse3/": ("fs/session",),
    "yaml-cpp/": ("config",),
    "spdlog/": ("config/base",),
    "curl/": ("backends/http",),
    "pugixml": ("backends/s3/client",),
    "lz4": ("backends/extent",),
    "zstd": ("backends/extent",),
    "numa": ("tiering/ram",),
}
# The whole of JSON costs each file that includes it a second or two: sources may, headers only where they are listed.
JSON = "nlohmann/json.hpp"


def folders_of(tree, comment):
    """(folders that are named, words that are no folders)."""
    named = INTERNAL.search(comment)
    words = re.split(r", | and ", named[1]) if named else []
    return [word for word in words if word in tree.folders], [word for word in words if word not in tree.folders]


def internal(tree):
    may = {}
    for header in tree.headers():
        comment = " ".join(leading_comment(tree.texts[header]))
        other = OTHER_WORDS.search(comment)
        if other:
            yield Violation(header, 1, f'"{other[0]}": say "Internal to FOLDER." (or "FOLDER and FOLDER"), which this rule sees')
        folders, unknown = folders_of(tree, comment)
        for word in unknown:
            yield Violation(header, 1, f'"Internal to {word}": there is no such folder; name one from the top of the repository')
        if folders:
            may[header] = folders
    for name in tree.code():
        for include in tree.includes(name):
            folders = may.get(include.name)
            if folders and not is_user(name, include.name, folders):
                yield Violation(name, include.line, f"includes {include.name}, which is internal to {' and '.join(folders)}: use "
                                "what that folder offers to others, or say in the header who else may")


def is_user(name, header, folders):
    """The folders, the header's own source, and tests of either."""
    places = [*folders, *(f"tests/unit/{folder}" for folder in (*folders, folder_of(header))), "tests/fuzz"]
    return is_below(name, *places) or name == header.replace(".hpp", ".cpp")


def heavy(tree, excepted=None):
    excepted = exceptions.HEAVY if excepted is None else excepted
    unused = set(excepted)
    for name in tree.code():
        for include in tree.includes(name):
            kind, places = places_of(include.name, name)
            if kind is None or is_below(name, *places, *(f"tests/unit/{place}" for place in places)):
                continue
            if (name, kind) in excepted:
                unused.discard((name, kind))
            elif kind == JSON:
                yield Violation(name, include.line, f"a header that includes {JSON} makes all who include it slow to compile: "
                                "<nlohmann/json_fwd.hpp> is enough for references")
            else:
                yield Violation(name, include.line, f"includes {include.name}, which belongs into {' and '.join(places)}: ask "
                                "that folder for what is needed")
    for name, kind in sorted(unused):
        yield Violation("tests/house/exceptions.py", 1, f"HEAVY: {name} does not include {kind} any more: take the entry out")


def places_of(include, name):
    """(kind, folders that may include it), or (None, ())."""
    if include == JSON:
        return (JSON, ()) if name.endswith(".hpp") else (None, ())
    return next(((kind, places) for kind, places in HEAVY.items() if include.startswith(kind)), (None, ()))
