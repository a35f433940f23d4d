"""Small files compressed on NVMe: the same bytes whatever happens to daemon, index and device, in less space; and nothing is
compressed that does not get small."""

import json
import subprocess
from pathlib import Path

import pytest

from harness import daemon, data
from test_nvme import flip, settled

COUNT = 120
SIZE = 50_000
CODECS = ["lz4", "zstd"]


def text(name, size):
    """Lines that differ from file to file, and compress to less than half."""
    lines = (f"{number * 7919 % 100_003}, {name}, label {number % 17}\n" for number in range(size // 10 + 1))
    return "".join(lines).encode()[:size]


def make(origin, kind, count=COUNT):
    """Sizes around SIZE and a few of them tiny or as large as a packed file may be."""
    sizes = [SIZE + 97 * number for number in range(count)] + [1, 700, 4096, 4097, 1 << 20]
    content = text if kind == "text" else data.content
    return {name: data.write(origin / name, content(name, size))
            for name, size in ((f"{kind}/{number:04}", size) for number, size in enumerate(sizes))}


def total(files):
    return sum(map(len, files.values()))


def from_nvme(m, files):
    """Reads all, and none of it from the origin."""
    before = m.status()["origin"]["bytes_read"]
    data.expect_files(m.path, files)
    status = m.status()
    assert status["origin"]["bytes_read"] == before and status["reads"]["errors"] == 0
    assert status["reads"]["checksum_errors"] == 0


@pytest.mark.tsan
@pytest.mark.parametrize("codec", CODECS)
def test_text_is_read_cold_warm_and_after_stops_and_kills(origin, mount, cache, codec):
    files = make(origin, "text")
    options = {**cache, "nvme.codec": codec, "metadata.ttl": "forever"}
    m = mount(origin, options)
    data.expect_files(m.path, files)
    settled(m)
    tier = m.tier("nvme")
    assert tier["admitted_bytes"] < 0.55 * total(files)
    assert tier["codec_saved_bytes"] > 0.4 * total(files)
    assert m.status()["datasets"][0]["codec"] == codec
    m.umount()
    cold = {**options, "ram.limit": "0"}
    m = mount(origin, cold)
    from_nvme(m, files)
    data.forget_below(m.path)
    from_nvme(m, files)  # again: nothing of it was kept in RAM
    assert m.status()["reads"]["by_tier"]["nvme"] >= 1.9 * total(files)
    m.kill_hard()
    m = mount(origin, cold)
    from_nvme(m, files)
    m.umount()
    m = mount(origin, {**cold, "nvme.codec": "none"})
    from_nvme(m, files)  # what is there stays readable


@pytest.mark.parametrize("codec", CODECS)
def test_space_that_is_used(origin, mount, cache, codec):
    """used_bytes goes by extents, of 1 MiB here."""
    files = make(origin, "text")
    used = {}
    for name in ["none", codec]:
        m = mount(origin, {**cache, "nvme.path": cache["nvme.path"] + "/" + name, "nvme.limit": "32M", "nvme.codec": name})
        data.expect_files(m.path, files)
        settled(m)
        m.umount()
        m = mount(origin, {**cache, "nvme.path": cache["nvme.path"] + "/" + name, "nvme.limit": "32M", "nvme.codec": name})
        used[name] = m.tier("nvme")["used_bytes"]
        m.umount()
    assert used["none"] >= total(files)
    assert used[codec] < 0.65 * used["none"]


@pytest.mark.parametrize("codec", CODECS)
def test_what_does_not_get_small_is_stored_as_it_is(origin, mount, cache, codec):
    files = make(origin, "random")
    m = mount(origin, {**cache, "nvme.codec": codec, "metadata.ttl": "forever"})
    data.expect_files(m.path, files)
    settled(m)
    tier = m.tier("nvme")
    assert tier["codec_saved_bytes"] == 0 and tier["admitted_bytes"] >= total(files)
    m.umount()
    from_nvme(mount(origin, {**cache, "ram.limit": "0", "metadata.ttl": "forever"}), files)


def test_each_dataset_has_its_codec(origin, mount, cache, folder):
    rules = folder / "tierfs.yaml"
    rules.write_text("nvme.codec: lz4\ndatasets:\n  - {match: /text/**, codec: zstd}\n  - {match: /raw/**, codec: none}\n")
    files = make(origin, "text", 40)
    plain = {f"raw/{number}": data.write(origin / f"raw/{number}", text(number, SIZE)) for number in range(40)}
    m = mount(origin, {**cache, "config": str(rules)})
    data.expect_files(m.path, plain)
    settled(m)
    assert m.tier("nvme")["codec_saved_bytes"] == 0
    data.expect_files(m.path, files)
    settled(m)
    assert m.tier("nvme")["codec_saved_bytes"] > 0.4 * total(files)
    assert [one["codec"] for one in m.status()["datasets"]] == ["zstd", "none", "lz4"]


@pytest.mark.parametrize("codec", CODECS)
def test_a_lost_index_is_found_again_in_the_extents(origin, mount, cache, folder, codec):
    (folder / "index").mkdir()
    files = make(origin, "text")
    options = {**cache, "nvme.codec": codec, "index.path": str(folder / "index")}
    m = mount(origin, options)
    data.expect_files(m.path, files)
    settled(m)
    m.umount()
    for path in sorted((folder / "index").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    m = mount(origin, {**options, "ram.limit": "0"})
    settled(m)
    data.expect_files(m.path, files)
    data.forget_below(m.path)
    from_nvme(m, files)
    by_tier = m.status()["reads"]["by_tier"]
    assert by_tier["nvme"] > by_tier["origin"] and m.tier("nvme")["unknown_codecs"] == 0


@pytest.mark.parametrize("codec", CODECS)
def test_damage_is_noticed_and_fetched_again(origin, mount, cache, codec):
    files = make(origin, "text")
    options = {**cache, "nvme.codec": codec, "metadata.ttl": "forever"}
    m = mount(origin, options)
    data.expect_files(m.path, files)
    settled(m)
    m.umount()

    def verify(*words):
        return subprocess.run([daemon.BINARY, "verify", cache["nvme.path"], *words], capture_output=True, text=True, check=False)
    good = verify("--json")
    report = json.loads(good.stdout)[0]
    assert good.returncode == 0 and report["bad_files"] == 0 and report["unknown_codecs"] == 0, good
    assert report["bytes"] < 0.55 * total(files)
    extents = [path for path in Path(cache["nvme.path"]).rglob("*.extent") if path.stat().st_size]
    assert extents
    for path in extents:
        flip(path, 65536)
    data.forget_below(cache["nvme.path"])
    assert verify().returncode == 1
    m = mount(origin, {**options, "ram.limit": "0"})
    data.expect_files(m.path, files)
    status = m.status()
    assert status["reads"]["errors"] == 0 and status["reads"]["checksum_errors"] > 10
    settled(m)
    data.forget_below(m.path)
    errors = m.status()["reads"]["checksum_errors"]
    data.expect_files(m.path, files)
    assert m.status()["reads"]["checksum_errors"] == errors, "what was damaged was written again"


@pytest.mark.parametrize("codec", CODECS)
def test_parts_of_a_compressed_file(origin, mount, cache, codec):
    """Backwards and in odd pieces, without a RAM tier."""
    size = (1 << 20) - 333
    content = data.write(origin / "f", text("f", size))
    options = {**cache, "nvme.codec": codec, "metadata.ttl": "forever"}
    m = mount(origin, options)
    data.expect_files(m.path, {"f": content})
    settled(m)
    assert m.tier("nvme")["codec_saved_bytes"] > size / 3
    m.umount()
    m = mount(origin, {**options, "ram.limit": "0"})
    with open(m.path / "f", "rb", buffering=0) as file:
        for at in [*range(size - 5000, 0, -77_777), 0, 65_535, size - 1]:
            data.forget_pages(m.path / "f")
            file.seek(at)
            assert file.read(70_000) == content[at:at + 70_000]
    assert m.status()["origin"]["bytes_read"] == 0
