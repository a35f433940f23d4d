"""The rule that a namespace has no two types of one name: one definition is what the language asks for, and no linker
complains about two."""

import re
from collections import defaultdict

from tree import Violation

FLOORS = ("config", "backends", "tiering", "fs", "bench", "tests/unit", "tests/fuzz")

SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|'
                     r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.S | re.M)
WORDS = re.compile(r"[A-Za-z_]\w*|::|[{};]|[<>=():]|\n")


def twice(tree):
    found = defaultdict(list)
    for name in tree.code(*FLOORS):
        for namespace, type_name, line in types(tree.texts[name]):
            if ANONYMOUS not in namespace:
                found["::".join((*namespace, type_name))].append((name, line))
    for type_name, places in sorted(found.items()):
        first = places[0]
        for name, line in places[1:]:
            if name != first[0]:
                yield Violation(name, line, f"{type_name} is defined in {first[0]}:{first[1]}, too: give one of the two another "
                                "name, or a .cpp's own type a place in an anonymous namespace")


ANONYMOUS = "(anonymous)"


def types(text):
    """(namespaces, name, line) of each class, struct, union, enum and alias that is defined outside of functions and classes."""
    text = SKIPPED.sub(lambda skipped: "\n" * skipped[0].count("\n"), text)
    found, scopes, statement, line = [], [], [], 1
    inside = 0  # braces of functions, classes and initialisers that are open
    for word in WORDS.findall(text):
        if word == "\n":
            line += 1
        elif word == "{":
            if inside or not is_namespace(statement):
                if not inside and (name := defined(statement)):
                    found.append((tuple(scope for part in scopes for scope in part), *name))
                inside += 1
            else:
                scopes.append([part for part, _ in statement if part not in ("inline", "namespace", "::")] or [ANONYMOUS])
            statement = []
        elif word == "}":
            if inside:
                inside -= 1
            elif scopes:
                scopes.pop()
            statement = []
        elif word == ";":
            if not inside and len(statement) > 2 and statement[0][0] == "using" and statement[2][0] == "=":
                found.append((tuple(scope for part in scopes for scope in part), *statement[1]))
            statement = []
        elif not inside:
            statement.append((word, line))
    return found


def is_namespace(statement):
    return [word for word, _ in statement[:2] if word != "inline"][:1] == ["namespace"]


def defined(statement):
    """(name, line) of the type that begins with these words before its brace, or None."""
    words = without_template(statement)
    if not words or words[0][0] not in ("class", "struct", "union", "enum"):
        return None
    names = []
    for number, (word, line) in enumerate(words[1:]):
        if number == 0 and word in ("class", "struct"):  # enum class
            continue
        if word in (":", "final"):
            break
        if word in ("(", "<", "::", "="):  # what returns a struct; a specialisation; a class of a class
            if not names or not names[-1][0].isupper() or word != "(":
                return None
            names = []  # a macro: TIERFS_CAPABILITY("mutex")
        elif word != ")":
            names.append((word, line))
    return names[-1] if names else None


def without_template(statement):
    while statement and statement[0][0] == "template":
        depth = 0
        for number, (word, _) in enumerate(statement):
            depth += (word == "<") - (word == ">")
            if word == ">" and depth == 0:
                statement = statement[number + 1:]
                break
        else:
            return []
    return statement
