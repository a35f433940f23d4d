"""`iobench report`: the page in a browser, the CSV, files that mean harm."""

import csv
import html
import json
import re
import shutil

import pytest
import synthetic
from browser import open_page
from conftest import LIMIT, SLOWNESS

HOSTILE = "<script>document.title='owned'</script>\"'`touch owned`'; system('touch owned')#\n\\{}$%@^~&amp;\x1b[31m"

# Texts that overlap, or that stand outside of their plot, go into the title, where the test finds them.
FIND_OVERLAPS = """<script>
const bad = [];
for (const svg of document.querySelectorAll('figure svg:not(.swatch)')) {
  const frame = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll('text')].map(e => [e.textContent.trim(), e.getBoundingClientRect()]);
  for (const [i, [text, box]] of texts.entries()) {
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1 || box.top < frame.top - 1)
      bad.push('outside: ' + text);
    for (const [other, beside] of texts.slice(i + 1))
      if (box.left < beside.right - 1 && beside.left < box.right - 1 && box.top < beside.bottom - 4
          && beside.top < box.bottom - 4) bad.push(text + ' on ' + other);
  }
}
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
if (wide > 0) bad.push('the page is wider than the window by ' + wide);
document.title = 'checked ' + document.querySelectorAll('figure svg text').length + ': ' + bad.slice(0, 20).join('; ');
</script>"""

needs_gnuplot = pytest.mark.skipif(not shutil.which("gnuplot"), reason="gnuplot is not installed")


def browse(page, *flags):
    return open_page(page, LIMIT * SLOWNESS, *flags)


@pytest.fixture
def report(iobench, folder):
    """report(files) is the page."""

    def make(files, **more):
        page = folder / "page.html"
        iobench("report", *files, "--html", page, **more)
        return page

    return make


@needs_gnuplot
def test_the_page_opens_without_an_error(report, folder):
    page = report(synthetic.everything(folder))
    opened = browse(page)
    assert opened.complaints == []
    for part in ("Headline", "Warnings", "seqrand", "How it was measured", "retinanet", "other processes used 38 %"):
        assert part in opened.dom
    assert opened.dom.count("<figure") > 10
    assert re.findall(r"""(?:src|href)=["'](?!#)""", opened.dom) == []
    assert "<script" not in opened.dom


@pytest.mark.parametrize("harm", ["<img src='missing.png'>", "<script>document.title = 'owned'</script>",
                                  "<link rel='stylesheet' href='http://127.0.0.1:1/x.css'>"])
def test_the_page_neither_loads_nor_runs_anything(iobench, folder, harm):
    """Not even what somebody managed to put into it; and the browser complains, so that the test above would see it."""
    page = folder / "page.html"
    iobench("report", synthetic.write(folder / "one.json", synthetic.checkpoint()), "--html", page)
    page.write_text(page.read_text().replace("<main>", f"<main>{harm}"))
    opened = browse(page)
    assert "Content Security Policy" in "".join(opened.complaints)
    assert "<title>iobench report</title>" in opened.dom


@needs_gnuplot
@pytest.mark.parametrize("window", ["1200,900", "390,800"])
def test_labels_do_not_overlap(report, folder, window):
    page = report(synthetic.everything(folder))
    text = page.read_text()
    policy = re.search(r"<meta http-equiv=[^>]*>", text).group()
    page.write_text(text.replace(policy, "").replace("</body>", FIND_OVERLAPS + "</body>"))
    title = re.search(r"<title>(.*?)</title>", browse(page, f"--window-size={window}").dom, re.S).group(1)
    count, bad = re.fullmatch(r"checked (\d+): (.*)", title, re.S).groups()
    assert int(count) > 100
    assert bad == ""


@needs_gnuplot
def test_hostile_names_are_only_text(iobench, folder, monkeypatch):
    cells = {(f"{HOSTILE}-{size}", "mb_per_s"): 100 for size in ("4k", "64k", "1m")} | {(HOSTILE, "p99_us"): 3}
    harmful = synthetic.table(HOSTILE, cells, {HOSTILE: 1, "b": 2}, dataset_rule=HOSTILE, preset=HOSTILE,
                              command=[HOSTILE], parameters={HOSTILE: [HOSTILE]}, host={HOSTILE: HOSTILE},
                              warnings=[HOSTILE],
                              disturbances=[{"target": HOSTILE, "case": HOSTILE, "run": 1, "what": HOSTILE}])
    harmful["figures"][0]["unit"] = HOSTILE
    path = synthetic.write(folder / "'; touch owned #.json", harmful)
    page = folder / "page.html"
    monkeypatch.chdir(folder)
    finished = iobench("report", path, "--html", page, "--csv", folder / "all.csv")
    assert finished.err == ""
    assert "\x1b" not in iobench("compare", path).out
    assert not (folder / "owned").exists()
    assert "<script" not in page.read_text()
    opened = browse(page)
    assert opened.complaints == []
    assert "<title>iobench report</title>" in opened.dom
    with open(folder / "all.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["suite"] == HOSTILE
    assert len(rows) == sum(len(figure["values"]) for figure in harmful["figures"])


def test_without_gnuplot_there_are_tables(iobench, folder):
    path = synthetic.write(folder / "small.json", synthetic.smallfiles())
    page = folder / "page.html"
    empty = folder / "empty"
    empty.mkdir()
    finished = iobench("report", path, "--html", page, env={"PATH": str(empty)})
    assert "gnuplot-nox" in finished.err
    text = page.read_text()
    assert "gnuplot-nox" in text
    assert "<table" in text and "<figure" not in text


def test_a_csv_has_every_value(iobench, folder):
    content = synthetic.smallfiles()
    iobench("report", synthetic.write(folder / "small.json", content), "--csv", folder / "all.csv")
    with open(folder / "all.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    expected = [(figure["target"], figure["case"], figure["metric"], str(i), value)
                for figure in content["figures"] for i, value in enumerate(figure["values"], 1)]
    assert [(row["target"], row["case"], row["metric"], row["run"], float(row["value"])) for row in rows] == expected


def test_nothing_to_write_is_wrong_usage(iobench, folder):
    iobench("report", synthetic.write(folder / "small.json", synthetic.smallfiles()), expect=2)


@pytest.mark.parametrize("content", [
    pytest.param("", id="empty"), pytest.param("[]", id="list"), pytest.param("{}", id="object"),
    pytest.param("null", id="null"), pytest.param('{"format": "iobench", "version": 2}', id="version"),
    pytest.param("[" * 200_000, id="deep"), pytest.param(json.dumps(synthetic.smallfiles())[:-40], id="cut")])
def test_what_is_no_result_is_refused(iobench, folder, content):
    path = folder / "bad.json"
    path.write_text(content)
    finished = iobench("report", path, "--html", folder / "page.html", expect=1)
    assert str(path) in finished.err
    assert not (folder / "page.html").exists()


def test_deep_parameters_do_not_break_it(iobench, folder):
    path = folder / "deep.json"
    text = json.dumps(synthetic.smallfiles())
    path.write_text(text.replace('"parameters": {', '"parameters": {"deep": ' + "[" * 100_000 + "]" * 100_000 + ", "))
    finished = iobench("report", path, path, "--html", folder / "page.html", expect=1)
    assert str(path) in finished.err


def test_odd_numbers_are_shown(iobench, folder):
    content = synthetic.smallfiles()
    for figure, values in zip(content["figures"], ([0, 0], [-5, 3], [1e308, 1e-308], [1], [1e300, 1e300], [5e-324])):
        figure["values"] = values
    page = folder / "page.html"
    iobench("report", synthetic.write(folder / "odd.json", content), "--html", page)
    assert html.escape("s3fs -o use_cache,ensure_diskfree") in page.read_text()
