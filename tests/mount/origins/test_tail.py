"""A server of whose answers a few take very long: hedged reads do not wait for those."""

import random

import pytest

from harness import data, processes

pytestmark = [pytest.mark.release, pytest.mark.alone]

BLOCK = 64 << 10
TAIL = 2  # seconds


def read_with_tail(mount, bucket, reads=500, **options):
    """Reads blocks of a large object in random order from a server of which each fiftieth answer takes TAIL; returns
    (seconds of each read, the mount's status, the server's counters)."""
    body = data.content("tail", (reads + 100) * BLOCK)
    bucket.put("large", body)
    m = mount(bucket.source(), bucket.options({"prefetch.window": "0", "metadata.ttl": "1h", **options}), env=bucket.env)
    blocks = random.Random(1).sample(range(reads + 100), reads)
    assert (m.path / "large").stat().st_size == len(body)
    bucket.server.control(ttfb_ms=2, tail_every=50, tail_ms=TAIL * 1000, get=0, tailed=0)
    found = data.read_blocks_direct(m.path / "large", blocks, BLOCK, threads=4)
    assert all(found[block][1] == body[block * BLOCK:(block + 1) * BLOCK] for block in blocks)
    status = m.status()
    m.umount()  # requests that lost have ended, and are counted at the server
    return [seconds for seconds, _ in found.values()], status, bucket.server.control()


@pytest.mark.tsan
def test_slow_answers_are_hedged(mount, nginx_bucket):
    seconds, status, server = read_with_tail(mount, nginx_bucket)
    origin, reads = status["origin"], len(seconds)
    slow = sum(one >= TAIL for one in seconds)
    assert server["tailed"] >= reads // 50
    # The first answers, from which what is usual is learned, are not hedged; nor is a hedge that is slow itself.
    # A machine that is slow itself (a sanitizer's build beside others) makes more of them.
    assert slow <= (4 if processes.SLOWNESS == 1 else server["tailed"] * 6 // 10), f"{slow} of {server['tailed']} slow answers were waited for"
    assert 1 <= origin["hedged"] <= 0.05 * reads
    assert 1 <= origin["hedges_won"] <= origin["hedged"]
    assert origin["requests"]["get"] == reads + origin["hedged"] + origin["retries"]
    assert status["reads"]["errors"] == 0


def test_hedging_switched_off(mount, nginx_bucket):
    seconds, status, server = read_with_tail(mount, nginx_bucket, reads=200, **{"origin.hedge": "0"})
    assert status["origin"]["hedged"] == 0
    assert sum(one >= TAIL for one in seconds) >= server["tailed"] >= 4
