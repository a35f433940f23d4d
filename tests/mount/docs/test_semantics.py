"""tierfs-semantics(7) and tierfs-security(7) name the tests of each of their statements, and they exist."""

import re

import pytest

from harness import daemon

TESTS = daemon.REPOSITORY / "tests"
PAGES = [TESTS.parent / "man/tierfs-semantics.7", TESTS.parent / "man/tierfs-security.7"]


def statements(page):
    """(text, tests) of each: from .IP to the next request that begins something else."""
    found, text, tests = [], None, []
    for line in [*page.read_text(encoding="utf-8").splitlines(), ".SH"]:
        if line.startswith((".IP", ".SH", ".SS")):
            if text is not None:
                found.append((" ".join(text), tests))
            text, tests = ([], []) if line.startswith(".IP") else (None, [])
        elif line.startswith('.\\" test:') and text is not None:
            tests.extend(line.split()[2:])
        elif text is not None:
            text.append(line)
    return found


@pytest.mark.quick
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_statement_names_a_test_that_exists(page):
    said = statements(page)
    assert len(said) > 20
    for text, tests in said:
        assert tests, f"no test is named: {text}"
        for name in tests:
            file, _, function = name.partition("::")
            path = TESTS / file
            assert path.is_file(), f"{name}: there is no such file ({text})"
            if function:
                assert re.search(rf"^def {function}\(", path.read_text(encoding="utf-8"), re.M), f"{name} ({text})"
