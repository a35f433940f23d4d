"""The configuration files that come with tierfs: each is accepted, named where a user looks, and serves a mount."""

import importlib.util
import os
import re

import pytest

from harness import daemon, data, processes

pytestmark = pytest.mark.release

CONFIG = daemon.REPOSITORY / "config"
EXAMPLES = sorted(CONFIG.glob("examples/*.yaml"))
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


@pytest.fixture
def chunk_sampler():
    spec = importlib.util.spec_from_file_location("chunk_sampler", CONFIG / "examples/chunk_sampler.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_sampler_reads_each_file_once_from_few_chunks_at_a_time(chunk_sampler):
    sizes, coming = [1000 + n % 7 for n in range(5000)], []
    sampler = chunk_sampler.ChunkSampler(sizes, seed=1, chunk=100_000, window=4, ahead=coming.append)
    order = list(sampler)
    assert sorted(order) == list(range(5000)) and len(sampler) == 5000
    chunk_of = {index: number for number, chunk in enumerate(sampler.chunks) for index in chunk}
    assert 45 <= len(sampler.chunks) <= 51 and sorted(sum(coming, [])) == list(range(5000))
    # Files of several chunks are mixed, and a chunk is done with soon after it was begun.
    assert all(len({chunk_of[index] for index in order[at:at + 50]}) >= 2 for at in range(0, 4900, 50))
    places = {}
    for place, index in enumerate(order):
        places.setdefault(chunk_of[index], []).append(place)
    assert sorted(max(some) - min(some) for some in places.values())[len(places) // 2] < 5000 // 3
    # An epoch has an order of its own, and the same one in each process; ranks share the files out.
    sampler.set_epoch(1)
    assert list(sampler) != order
    sampler.set_epoch(0)
    assert list(sampler) == order
    shares = [list(chunk_sampler.ChunkSampler(sizes, seed=1, chunk=100_000, rank=rank, world=3)) for rank in range(3)]
    assert sorted(sum(shares, [])) == list(range(5000))


def test_the_sampler_reads_from_a_pack(chunk_sampler, origin, folder, mount):
    """In the order of the pack; what it asks for ahead is there when it is read."""
    files = data.make_files(origin, 60, 20_000)
    processes.check([daemon.BINARY, "pack", str(origin), str(folder / "pack")])
    m = mount(origin, {"pack": str(folder / "pack")})
    listed = chunk_sampler.list_files(m.path)
    assert [os.path.relpath(path, m.path) for path, _ in listed] == sorted(files)
    ahead = chunk_sampler.FetchAhead([path for path, _ in listed])
    for index in chunk_sampler.ChunkSampler([size for _, size in listed], chunk=100_000, ahead=ahead):
        path = listed[index][0]
        with open(path, "rb") as file:
            assert file.read() == files[os.path.relpath(path, m.path)]
    assert m.status()["pack"]["failed"] == 0
