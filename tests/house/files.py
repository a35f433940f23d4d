"""Rules about files: their length, and how a header begins."""

import re

import exceptions
from tree import Violation, leading_comment

MOST = 500  # lines

PRINTS = re.compile(r"\b(v?f?printf|dprintf|f?puts|putchar|fwrite|cout|cerr)\s*(?:\(|<<)(?!\s*printf)")

PRONOUN = re.compile(r"^(What|Who|Whom|Whose|Whoever|Whatever|Which|Whichever|Whether|Where|Why|How|That|If|When)\b")


def lengths(tree, excepted=None):
    excepted = exceptions.LONG if excepted is None else excepted
    unused = set(excepted)
    for name in tree.names:
        lines = tree.texts[name].count("\n")
        if lines <= MOST:
            continue
        if name in excepted:
            unused.discard(name)
        else:
            yield Violation(name, lines, f"{lines} lines, and {MOST} are the most: divide it by subject")
    for name in sorted(unused):
        yield Violation("tests/house/exceptions.py", 1, f"LONG: {name} is not longer than {MOST} lines any more: take it out")


def printing(tree):
    """Commands of fs/ print through fs/cli/say.hpp alone, so that names from outside steer no terminal."""
    for name in tree.names:
        if not name.startswith("fs/") or not name.endswith((".cpp", ".hpp")) or name in ("fs/cli/say.cpp", "fs/cli/terminal.cpp"):
            continue
        for number, line in enumerate(tree.texts[name].splitlines(), 1):
            if found := PRINTS.search(line.split("//")[0]):
                yield Violation(name, number, f"prints by {found[1]}: use say, say_line, sayf or say_json of fs/cli/say.hpp")


def first_lines(tree):
    """A header begins with a comment, and that with a noun: a listing of first lines is the table of contents."""
    for name in tree.headers():
        comment = leading_comment(tree.texts[name])
        if not comment or not comment[0]:
            yield Violation(name, 1, "a header begins with a comment that says what its class is: // NOUN ...")
        elif found := PRONOUN.match(comment[0]):
            yield Violation(name, 1, f'begins with "{found[1]}": begin with a noun, as "// Order of ..." or "// The rule ..."')
