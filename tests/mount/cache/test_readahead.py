"""What is fetched before it is asked for: requests and bytes are counted at the server."""

import concurrent.futures
import mmap
import os
import random

import pytest

from harness import data, processes

pytestmark = pytest.mark.release

SIZE = 16 * 1024


def put_files(bucket, folders=4, in_folder=300, size=SIZE):
    files = {f"d{folder}/f{number:05}.bin": data.content(folder * in_folder + number, size)
             for folder in range(folders) for number in range(in_folder)}
    bucket.put_all(files)
    return files


def options(bucket, cache, more=None):
    return bucket.options({**cache, "nvme.limit": "256M", "ram.limit": "64M", "metadata.ttl": "1h", "origin.hedge": "0",
                           **(more or {})})


def read_all(m, names, files, readers=4):
    """Readers take turns through `names`; every byte is compared."""
    def read(reader):
        for name in names[reader::readers]:
            data.expect_same(data.read_cold(m.path / name), files[name], name)
    with concurrent.futures.ThreadPoolExecutor(readers) as pool:
        for one in [pool.submit(read, reader) for reader in range(readers)]:
            one.result()


def counted(bucket):
    return bucket.server.control()


def ahead(m):
    """Bytes fetched before a reader asked."""
    status = m.status()
    return status["datasets"][0]["fill"]["done_bytes"], status["reads"]["prefetched_bytes"]


def test_scattered_reads_have_the_rest_fetched(mount, nginx_bucket, cache):
    files = put_files(nginx_bucket)
    nginx_bucket.server.control(ttfb_ms=20)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache), env=nginx_bucket.env)
    names = sorted(files)
    random.Random(1).shuffle(names)
    before = counted(nginx_bucket)
    read_all(m, names, files)
    after = counted(nginx_bucket)
    assert ahead(m)[0] > 0.5 * len(files) * SIZE, m.status()
    gets = after["get"] - before["get"]
    assert len(files) <= gets <= 1.02 * len(files), gets


def test_a_shard_alone_is_fetched(mount, nginx_bucket, cache):
    files = put_files(nginx_bucket)
    nginx_bucket.server.control(ttfb_ms=20)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache), env=nginx_bucket.env)
    mine = sorted(files)[2::4]
    random.Random(2).shuffle(mine)
    before = counted(nginx_bucket)
    read_all(m, mine, files)
    after = counted(nginx_bucket)
    assert ahead(m)[0] > 0.2 * len(mine) * SIZE, m.status()
    assert after["get"] - before["get"] <= 1.02 * len(mine)


def test_one_folder_alone_is_fetched(mount, nginx_bucket, cache):
    files = put_files(nginx_bucket)
    nginx_bucket.server.control(ttfb_ms=20)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache), env=nginx_bucket.env)
    mine = [name for name in sorted(files) if name.startswith("d2/")]
    random.Random(3).shuffle(mine)
    before = counted(nginx_bucket)
    read_all(m, mine, files)
    after = counted(nginx_bucket)
    assert ahead(m)[0] > 0.2 * len(mine) * SIZE, m.status()
    assert after["get"] - before["get"] <= 1.02 * len(mine)


@pytest.mark.parametrize("readers", [1, 4])
def test_files_in_the_order_of_their_directory_are_fetched_ahead(mount, nginx_bucket, cache, readers):
    files = put_files(nginx_bucket, folders=2)
    nginx_bucket.server.control(ttfb_ms=20)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache), env=nginx_bucket.env)
    before = counted(nginx_bucket)
    read_all(m, sorted(files), files, readers)
    after = counted(nginx_bucket)
    assert sum(ahead(m)) > 0.7 * len(files) * SIZE, m.status()
    assert after["get"] - before["get"] == len(files)


def test_readahead_of_files_ends_at_a_seek(mount, nginx_bucket, cache):
    files = put_files(nginx_bucket, folders=1, in_folder=1000)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache, {"prefetch.window": "1M"}), env=nginx_bucket.env)
    names = sorted(files)
    before = counted(nginx_bucket)["get"]
    read_all(m, names[:100], files, readers=1)
    # Where a slow device is behind, nothing is fetched ahead until the next read: the window may end before 164.
    fetched = processes.settled(lambda: counted(nginx_bucket)["get"] - before)
    assert 100 < fetched <= 164
    read_all(m, [names[900], names[500]], files, readers=1)
    assert processes.settled(lambda: counted(nginx_bucket)["get"] - before) == fetched + 2


def test_no_readahead_of_files_without_a_window(mount, nginx_bucket, cache):
    files = put_files(nginx_bucket, folders=1)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache, {"prefetch.window": "0"}), env=nginx_bucket.env)
    before = counted(nginx_bucket)["get"]
    read_all(m, sorted(files)[:200], files, readers=1)
    assert counted(nginx_bucket)["get"] - before == 200


def test_fetching_ahead_survives_a_server_that_fails(mount, nginx_bucket, cache):
    files = put_files(nginx_bucket, folders=2)
    nginx_bucket.server.control(ttfb_ms=5, fail_every=7)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache), env=nginx_bucket.env)
    names = sorted(files)
    read_all(m, names[:300], files)
    random.Random(5).shuffle(names)
    read_all(m, names, files)
    nginx_bucket.server.calm()


LARGE = 96 << 20


def put_large(bucket):
    body = data.content("large", LARGE)
    bucket.put("large.bin", body)
    return body


def read_places(path, places, size, body):
    """Reads that the kernel leaves as they are; every byte is compared."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
        for place in places:
            assert os.pread(handle, size, place) == body[place:place + size], place
    finally:
        os.close(handle)


def unused(m):
    return m.status()["reads"]["prefetched_unused_bytes"]


def test_random_reads_fetch_little_more_than_they_ask_for(mount, nginx_bucket, cache):
    body = put_large(nginx_bucket)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache), env=nginx_bucket.env)
    size, before = 64 << 10, counted(nginx_bucket)["bytes"]
    places = [size * block for block in random.Random(1).sample(range(1, LARGE // size), 300)]
    read_places(m.path / "large.bin", places, size, body)
    sent = counted(nginx_bucket)["bytes"] - before
    assert sent <= 1.1 * len(places) * size + 4096
    assert unused(m) <= 0.1 * sent


def test_mapped_reads_at_random_fetch_no_more_than_the_kernel_reads_ahead(mount, nginx_bucket, cache):
    body = put_large(nginx_bucket)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache), env=nginx_bucket.env)
    before, ahead_of_kernel = counted(nginx_bucket)["bytes"], 512 << 10
    places = random.Random(2).sample(range(0, LARGE, 4096), 60)
    handle = os.open(m.path / "large.bin", os.O_RDONLY)
    with mmap.mmap(handle, LARGE, prot=mmap.PROT_READ) as area:
        for place in places:
            assert area[place:place + 4096] == body[place:place + 4096]
    os.close(handle)
    assert counted(nginx_bucket)["bytes"] - before <= 1.1 * len(places) * (4096 + ahead_of_kernel)


@pytest.mark.parametrize("gap", [3 << 20, -(3 << 20)])
def test_of_a_strided_run_the_pieces_are_fetched(mount, nginx_bucket, cache, gap):
    body = put_large(nginx_bucket)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache), env=nginx_bucket.env)
    size, before = 128 << 10, counted(nginx_bucket)
    first = 1 << 20 if gap > 0 else 94 << 20
    places = [first + gap * i for i in range(30)]
    read_places(m.path / "large.bin", places, size, body)
    after = counted(nginx_bucket)
    assert after["bytes"] - before["bytes"] <= 1.2 * len(places) * size
    assert m.status()["reads"]["prefetched_bytes"] >= 20 * size


def test_a_run_backwards_is_fetched_in_large_parts(mount, nginx_bucket, cache):
    body = put_large(nginx_bucket)
    m = mount(nginx_bucket.source(), options(nginx_bucket, cache), env=nginx_bucket.env)
    size, before = 128 << 10, counted(nginx_bucket)
    read_places(m.path / "large.bin", range(LARGE - size, -1, -size), size, body)
    after = counted(nginx_bucket)
    assert after["bytes"] - before["bytes"] <= 1.02 * LARGE
    assert after["get"] - before["get"] <= 110
