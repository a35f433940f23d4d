"""memory.limit is kept, whatever is read. Measured on the release build: a sanitizer has memory of its own."""

import threading

import pytest

from harness import data, faults, processes

pytestmark = [pytest.mark.release_only, pytest.mark.alone]

LIMIT = 192 << 20


class Watch:
    """The highest memory of a process while the block runs."""

    def __init__(self, pid):
        self.pid, self.peak, self.over = pid, 0, threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.look)
        self.thread.start()
        return self

    def look(self):
        while not self.over.wait(0.02):
            self.peak = max(self.peak, processes.memory_of(self.pid))

    def __exit__(self, kind, error, trace):
        self.over.set()
        self.thread.join()


def big_dataset(origin):
    data.make_files(origin / "small", 3000, 60_000)
    piece = data.content("piece", 1 << 20)
    for number in range(6):
        with open(origin / f"large{number}", "wb") as out:
            for block in range(64):
                out.write(block.to_bytes(4, "little") + piece[4:])


@pytest.mark.parametrize("with_cache", [False, True])
def test_limit_is_kept(origin, mount, cache, with_cache):
    big_dataset(origin)
    m = mount(origin, {**(cache if with_cache else {}), "memory.limit": str(LIMIT), "metadata.ttl": "1h"})
    with Watch(m.status()["pid"]) as watch:
        for _ in range(2):
            processes.check(["bash", "-c", f"cd '{m.path}' && for f in large*; do cat $f >/dev/null & done; "
                             "find small -type f | xargs -P 4 -n 200 cat >/dev/null; wait"],
                            timeout=80, suspects=m.processes)
            data.drop_caches(1)
    status = m.status()
    assert status["memory"]["limit_bytes"] == LIMIT
    assert status["reads"]["errors"] == 0
    assert 0 < watch.peak <= LIMIT * 1.05, f"{watch.peak >> 20} MiB of {LIMIT >> 20}"


def test_many_open_files(origin, mount):
    data.make_files(origin, 2000, 100)
    m = mount(origin, {"memory.limit": "128M"})
    handles = []
    try:
        for path in sorted(m.path.rglob("*.bin")):
            handles.append(open(path, "rb"))  # pylint: disable=consider-using-with
        assert len(handles) == 2000 and all(handle.read() for handle in handles)
        assert processes.memory_of(m.status()["pid"]) <= (128 << 20) * 1.05
    finally:
        for handle in handles:
            handle.close()


class WideS3(faults.FaultyS3):
    """32 prefixes of 4 pages of 1,000 names each, the same ones everywhere; a page is built once. `fat`: ETags as long as a page
    has room for."""

    PREFIXES, PAGES = 32, 4

    def __init__(self, fat):
        super().__init__()
        etag = "e" * (3000 if fat else 32)
        self.pages = ["".join(f"<Contents><Key>PREFIX{page}{row:03}{'%25' * 230}</Key><LastModified>2024-05-06T07:08:09.000Z</LastModified>"
                              f"<ETag>&quot;{etag}&quot;</ETag><Size>1</Size></Contents>" for row in range(1000))
                      for page in range(self.PAGES)]

    def list(self, request, bucket, query):
        prefix, page = query.get("prefix", ""), int(query.get("continuation-token", "0"))
        if prefix == "":
            rows, more = "".join(f"<CommonPrefixes><Prefix>p{number}/</Prefix></CommonPrefixes>" for number in range(self.PREFIXES)), False
        else:
            rows, more = self.pages[page].replace("PREFIX", prefix), page + 1 < self.PAGES
        token = f"<NextContinuationToken>{page + 1}</NextContinuationToken>" if more else ""
        request.answer(200, (f"<ListBucketResult><Name>{bucket}</Name><EncodingType>url</EncodingType>"
                             f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{rows}</ListBucketResult>").encode())


@pytest.mark.parametrize("fat", [False, True])
@pytest.mark.parametrize("kind", ["ro", "rw"])
def test_listings_beside_each_other_keep_the_limit(mount, faulty, kind, fat):
    limit = 96 << 20
    with WideS3(fat) as server:
        m = mount("s3://bucket", {"s3.endpoint": server.endpoint, "s3.region": "us-east-1", "memory.limit": str(limit), kind: None}, env=faulty.env)
        with Watch(m.status()["pid"]) as watch:
            processes.check(["bash", "-c", f"cd '{m.path}' && for p in *; do (ls -U $p | wc -l) & done; wait"],
                            timeout=80, suspects=m.processes)
    assert 0 < watch.peak <= limit * 1.05, f"{watch.peak >> 20} MiB of {limit >> 20}"
