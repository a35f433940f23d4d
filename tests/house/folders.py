"""Rules about folders: floors, and circles."""

from collections import defaultdict

import exceptions
from tree import Violation, folder_of, is_below

# From below to above: a floor includes itself and those before it.
FLOORS = ("config", "backends", "tiering", "fs")
# Folders beside the floors, and all that each may include.
BESIDE = {
    "bench/iobench": ("bench/iobench", "config"),  # the measuring instrument stands on nothing that it measures
    "bench/micro": ("bench/micro", "config", "backends", "tiering"),
}


def allowed(name):
    """The folders that this file may include; empty where no rule says so."""
    for number, floor in enumerate(FLOORS):
        if is_below(name, floor):
            return FLOORS[:number + 1]
    return next((may for folder, may in BESIDE.items() if is_below(name, folder)), ())


def is_above(name, header):
    """What floors() reports; as a part of circles it would make one of half the tree."""
    may = allowed(name)
    return bool(may) and not is_below(header, *may)


def floors(tree):
    for name in tree.code():
        for include in tree.includes(name):
            if not include.ours:
                continue
            if include.name not in tree.texts:
                yield Violation(name, include.line, f'"{include.name}" is no header of ours: write the path from the top of '
                                "the repository, and <...> for those of libraries")
            elif is_above(name, include.name):
                yield Violation(name, include.line, f"includes {include.name}; {folder_of(name)} may include "
                                f"{', '.join(allowed(name))} alone: move the code up, or hand in an interface that a floor "
                                "below declares")


def circles(tree, excepted=None):
    """Circles of folders, by #include. Each include that leads back is reported, to be judged by who knows the folders."""
    excepted = exceptions.CIRCULAR if excepted is None else excepted
    edges, unused = defaultdict(list), set(excepted)
    for name in tree.code(*FLOORS, "bench"):
        for include in tree.includes(name):
            here, there = folder_of(name), folder_of(include.name)
            if (name, include.name) in excepted:
                unused.discard((name, include.name))
            elif include.ours and here != there and include.name in tree.texts and not is_above(name, include.name):
                edges[here, there].append((name, include))
    for circle in circles_of(edges):
        for (here, there), found in sorted(edges.items()):
            if here in circle and there in circle:
                name, include = found[0]
                yield Violation(name, include.line, f"includes {include.name}, and {there} leads back to {here} (circle: "
                                f"{', '.join(sorted(circle))}; {len(found)} such includes): break it where the fewest are")
    for name, header in sorted(unused):
        yield Violation("tests/house/exceptions.py", 1,
                        f"CIRCULAR: {name} does not include {header} any more: take the entry out")


def circles_of(edges):
    """Sets of folders of which each is reached from each other one."""
    following = defaultdict(set)
    for here, there in edges:
        following[here].add(there)
    reached = {folder: reach(folder, following) for folder in following}
    found = []
    for folder in sorted(reached):
        circle = {other for other in reached[folder] if folder in reached.get(other, ())}
        if circle and circle not in found:
            found.append(circle)
    return found


def reach(start, following):
    seen, ahead = set(), list(following[start])
    while ahead:
        folder = ahead.pop()
        if folder not in seen:
            seen.add(folder)
            ahead.extend(following.get(folder, ()))
    return seen
