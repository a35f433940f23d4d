"""The configuration files that come with tierfs: each is accepted, named where a user looks, and serves a mount."""

import re

import pytest

from harness import daemon, data, processes

pytestmark = pytest.mark.release

CONFIG = daemon.REPOSITORY / "config"
EXAMPLES = sorted(CONFIG.glob("examples/*"))
EACH = pytest.mark.parametrize("example", [*EXAMPLES, CONFIG / "tierfs.yaml"], ids=lambda path: path.name)
# Paths of each example's dataset, and the class that its rules give them (None: no rule is for them).
CLASSES = {"imagenet-s3.yaml": {"/train/n01440764/1.JPEG": None, "/labels.txt": "pin"},
           "llm-tokens.yaml": {"/shard-0.bin": "pin", "/deep/shard-0.idx": "pin", "/notes": None},
           "shards.yaml": {"/train/0.tar": "epoch", "/train/0.parquet": "hot", "/eval/0.tar": "once", "/other": None}}


@EACH
def test_it_is_accepted_and_short(example):
    processes.check([daemon.BINARY, "config", "--check", example])
    lines = example.read_text(encoding="ascii").splitlines()
    assert len(lines) <= 70 and max(map(len, lines)) <= 128
    assert lines[0].startswith("# ") and f"/{example.name}" in "".join(lines[:3]), "the head says what it is for, and how to mount"


@EACH
def test_it_is_named_where_a_user_looks(example):
    page = (daemon.REPOSITORY / "man/tierfs.yaml.5").read_text(encoding="utf-8").replace("\\-", "-")
    readme = (daemon.REPOSITORY / "README.md").read_text(encoding="utf-8")
    assert example.name in page and example.name in readme


@EACH
def test_it_serves_a_mount(example, origin, mount, cache):
    """Of a directory, with folders and limits of the test's own."""
    files = data.make_files(origin, 20, 5000)
    m = mount(origin, {"config": str(example), "ro": None, **cache})
    data.expect_files(m.path, files)
    status = m.status()
    assert status["reads"]["errors"] == 0
    assert status["datasets"][-1]["configured"] == (re.search(r"^class: (\w+)", example.read_text(encoding="ascii"), re.M)
                                                    or [None, "auto"])[1]


@pytest.mark.parametrize("name", CLASSES)
def test_rules_mean_what_the_comments_say(name):
    for path, expected in CLASSES[name].items():
        told = processes.check([daemon.BINARY, "config", "--check", CONFIG / "examples" / name, path]).out.splitlines()[0]
        assert f"class {expected}," in told if expected else "no rule of the file" in told, told
