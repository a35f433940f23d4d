"""tierfs-guide(7): it has no figure of its own. Each stands in the page that it is from, and a bench repeats it."""

import os
import re

import pytest

from conftest import REPOSITORY

PAGE = REPOSITORY / "man/tierfs-guide.7"
# A comment behind the sentence: the file that states the figures, and how it writes each.
SOURCE = re.compile(r'^\.\\" figure: (\S+) (".*")$', re.M)


@pytest.fixture(scope="module", name="page")
def page_text():
    return PAGE.read_text(encoding="utf-8").replace("\\-", "-")


def sourced(page):
    return [(where, figure) for where, figures in SOURCE.findall(page) for figure in re.findall(r'"([^"]*)"', figures)]


def test_figures_are_those_of_their_sources(page):
    known = sourced(page)
    assert len(known) > 15
    for where, figure in known:
        text = (REPOSITORY / where).read_text(encoding="utf-8")
        assert figure in re.sub(r"\s+", " ", text), f"{where} has no {figure}"


def test_no_figure_without_a_source(page):
    """Decimal fractions and thousands are measured; whatever the page says of them stands in a source."""
    said = set(re.findall(r"(?<![\d.,])\d+(?:[.,]\d+)+(?![\d.])", re.sub(r'^(\.\\"|\.TH) .*$', "", page, flags=re.M)))
    stated = " ".join(figure for _, figure in sourced(page))
    version = re.search(r"project\(tierfs VERSION ([0-9.]+)", (REPOSITORY / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
    assert said and not {number for number in said if number not in stated} - {"22,001", version}  # how many files there were
    assert "22,001" in (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_benches_are_there(page):
    benches = set(re.findall(r"bench/[a-z-]+", page))
    assert len(benches) >= 4
    assert all(os.access(REPOSITORY / bench, os.X_OK) for bench in benches), benches


def test_every_finding_of_doctor_leads_somewhere(page):
    """The ids of tierfs(8), but for those about the host and the mount's own health, which say what to do themselves."""
    manual = (REPOSITORY / "man/tierfs.8").read_text(encoding="utf-8").replace("\\-", "-")
    section = manual.partition(".SH DOCTOR")[2].partition("ids of host,")[0].partition("The ids of")[2]
    ids = {name for line in re.findall(r"^\.B (.*)$", section, re.M) for name in line.split(", ")}
    assert len(ids) > 10
    assert not [name for name in ids - {"transport", "errors", "failures"} if not re.search(rf"(?<![\w-]){name}(?![\w-])", page)]
