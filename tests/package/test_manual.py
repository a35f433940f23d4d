"""The manual pages, to the second program that shows them. (tests/bench sees that groff has no warning.)"""

import shutil

import pytest

from conftest import REPOSITORY, run


@pytest.mark.parametrize("page", sorted(REPOSITORY.glob("man/*.[1-8]")), ids=lambda page: page.name)
def test_mandoc_has_no_warning(page):
    if not shutil.which("mandoc"):
        pytest.skip("mandoc is not installed")
    done = run("mandoc", "-T", "lint", "-W", "warning", page)
    assert done.returncode == 0 and done.stdout == "", done.stdout
