"""`iobench compare`."""

import json

import pytest
import synthetic


@pytest.fixture
def files(folder):
    """Two results of the target tierfs, old and new: the second has twice the rate and half the latency."""
    cells = {("shuffled", "files_per_s"): 2000, ("shuffled", "p99_us"): 300, ("shuffled", "files"): 100}
    made = []
    for name, factor in (("old", 0.5), ("new", 1)):
        made.append(synthetic.write(folder / f"{name}.json", synthetic.table("smallfiles", cells, {"tierfs": factor})))
    return made


def verdicts(finished):
    rows = json.loads(finished.out)["comparisons"][0]["figures"]
    return {row["metric"]: row["verdict"] for row in rows}


def test_the_verdict_is_about_the_new_file(iobench, files):
    assert verdicts(iobench("compare", *files, "--json")) == {"files_per_s": "faster", "p99_us": "faster", "files": None}
    assert verdicts(iobench("compare", *reversed(files), "--json"))["p99_us"] == "slower"
    assert verdicts(iobench("compare", files[0], files[0], "--json"))["p99_us"] == "no difference"


def test_the_table_has_medians_and_a_ratio(iobench, files):
    lines = iobench("compare", *files).out.splitlines()
    row = next(line for line in lines if line.startswith("shuffled  files_per_s"))
    assert row.endswith("faster") and "[" in row


def test_fail_if_slower_is_for_continuous_integration(iobench, files):
    old, new = files
    iobench("compare", old, new, "--fail-if-slower", 5)
    finished = iobench("compare", new, old, "--fail-if-slower", 5, expect=3)
    assert "slower by" in finished.err
    iobench("compare", new, old, "--fail-if-slower", 400)
    iobench("compare", new, old, "--fail-if-slower", 75, "--metric", "^files_per_s$")


def test_fail_if_slower_fails_where_it_cannot_tell(iobench, folder, files):
    old, new = files
    document = json.loads(new.read_text())

    def told(change):
        spoilt = json.loads(new.read_text())
        change(spoilt)
        path = folder / "spoilt.json"
        path.write_text(json.dumps(spoilt))
        return iobench("compare", old, path, "--fail-if-slower", 5, expect=1).err

    def shorten(spoilt):
        for figure in spoilt["figures"]:
            figure.update(values=figure["values"][:4], outliers=[])

    assert document["complete"]
    assert "is not complete" in told(lambda spoilt: spoilt.update(complete=False))
    assert "A lacks shuffled" in told(lambda spoilt: spoilt["figures"].pop())
    assert "fewer than 5 runs" in told(shorten)


def test_a_pattern_chooses_metrics(iobench, files):
    assert list(verdicts(iobench("compare", *files, "--json", "--metric", "_us$"))) == ["p99_us"]
    assert "no case and metric" in iobench("compare", *files, "--metric", "nothing", expect=1).err
    iobench("compare", *files, "--metric", "(", expect=2)


def test_one_file_compares_its_targets(iobench, folder):
    path = synthetic.write(folder / "all.json", synthetic.smallfiles())
    names = list(synthetic.TARGETS)
    content = json.loads(iobench("compare", path, "--json").out)
    assert [(one["a"]["target"], one["b"]["target"]) for one in content["comparisons"]] == [(names[0], b) for b in names[1:]]
    assert all(one["paired"] for one in content["comparisons"])
    content = json.loads(iobench("compare", path, "--json", "--a", names[1], "--b", names[3]).out)
    assert [(one["a"]["target"], one["b"]["target"]) for one in content["comparisons"]] == [(names[1], names[3])]
    assert "no target" in iobench("compare", path, "--a", "nobody", expect=1).err


def test_it_warns_of_what_makes_the_answer_doubtful(iobench, folder, files):
    content = json.loads(files[0].read_text())
    content["host"]["cpus"] = 64
    content["parameters"]["processes"] = 16
    content["suite"] = "epoch"
    content["figures"][0]["values"] = content["figures"][0]["values"][:3]
    content["disturbances"] = [{"target": "tierfs", "case": "shuffled", "run": 1, "what": "somebody dropped caches"}]
    finished = iobench("compare", synthetic.write(folder / "other.json", content), files[1])
    for words in ("hosts", "parameters", "suites", "fewer than 5 runs", "somebody dropped caches"):
        assert words in finished.err
    assert iobench("compare", *files).err == ""


def test_wrong_usage(iobench, files):
    iobench("compare", expect=2)
    iobench("compare", *files, files[0], expect=2)
    iobench("compare", *files, "--fail-if-slower", "-1", expect=2)
    assert "missing.json" in iobench("compare", "missing.json", expect=1).err
