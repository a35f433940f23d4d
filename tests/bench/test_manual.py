"""The manual page: well-formed, and complete as far as a program can tell."""

import json
import re
import subprocess

import pytest

from conftest import REPOSITORY

PAGE = REPOSITORY / "man/iobench.1"


def shown(page):
    """What a reader sees, on long lines and not hyphenated."""
    words = ["groff", "-man", "-t", "-Tutf8", "-P-cbou", "-rLL=500n", "-rHY=0", str(page)]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout.replace("−", "-") \
        .replace("‐", "-")


@pytest.fixture(scope="module", name="text")
def page_text():
    return shown(PAGE)


@pytest.mark.parametrize("name", sorted(page.name for page in REPOSITORY.glob("man/*.[1-8]")))
def test_groff_has_no_warning(name):
    words = ["groff", "-ww", "-man", "-t", "-Tutf8", "-z", str(REPOSITORY / "man" / name)]
    told = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert told.stderr == "" and told.stdout == ""


def names(text, pattern):
    return sorted(set(re.findall(pattern, text, re.M)))


def test_every_subcommand_and_option_is_there(iobench, text):
    subcommands = names(iobench("--help").out.partition("Subcommands:")[2], r"^  ([a-z]+)")
    assert "run" in subcommands and "gen" in subcommands
    for subcommand in subcommands:
        assert f"iobench {subcommand}" in text
        options = names(iobench(subcommand, "--help").out.partition("Suites:")[0], r"(--[a-z][a-z-]+)")
        assert not [option for option in options if not re.search(rf"(?<![\w-]){option}(?![\w-])", text)]


def test_every_choice_of_an_option_is_there(iobench, text):
    told = iobench("run", "--help").out
    suites = names(told.partition("Suites:")[2], r"^  ([a-z]+): ")
    assert "metadata" in suites and "loader" in suites
    for suite in suites:
        assert re.search(rf"^ *{suite}$", text, re.M), f"the suite {suite} has no heading of its own"


def test_every_figure_is_there(iobench, folder, text):
    """What runs of the suites write; their parts that need a device or root are in the page by hand."""
    data = folder / "data"
    iobench("gen", data, "--kind", "random", "--files", 40, "--size", "8K", "--directories", 2,
            "--large", "big:3M")
    (folder / "user.py").write_text("def make(path, num_workers): return range(20)\n", encoding="ascii")
    told = iobench("run", "--help").out
    missing = []
    for suite in names(told.partition("Suites:")[2], r"^  ([a-z]+): "):
        result = folder / f"{suite}.json"
        more = {"loader": ["--loader", f"{folder}/user.py:make", "--batches", 10, "--compute", 0]}.get(suite, [])
        iobench("run", "--suite", suite, "--path", data, "--runs", 1, "--processes", 2, "--json", result, *more)
        figures = {figure["metric"] for figure in json.loads(result.read_text(encoding="utf-8"))["figures"]}
        missing += [(suite, figure) for figure in sorted(figures) if not re.search(rf"\b{figure}\b", text)]
    assert not missing
