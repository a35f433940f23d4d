"""iobench on a mount: whose memory and processor time it tells."""

import json
import os
from pathlib import Path

import pytest

from harness import daemon, data, processes

pytestmark = pytest.mark.release

IOBENCH = os.environ.get("TIERFS_TEST_IOBENCH", str(Path(daemon.BINARY).with_name("iobench")))


@pytest.mark.skipif(not os.access(IOBENCH, os.X_OK), reason=f"no iobench program at {IOBENCH}")
def test_the_daemon_of_a_mount_is_the_one_that_serves(origin, mount, folder):
    """Its supervisor listens on the control socket, and does nothing."""
    data.make_files(origin, 300, 20_000)
    m = mount(origin)
    result = folder / "result.json"
    processes.check([IOBENCH, "run", "--suite", "smallfiles", "--path", m.path, "--runs", "1", "--warm-up", "0", "--json", result], timeout=100)
    told = json.loads(result.read_text())["targets"][0]["daemon"]
    status = m.status()
    assert told["pid"] == status["pid"] != status["supervisor_pid"], told
    assert told["cpu_s"] > 0 and told["peak_rss_bytes"] > 5 << 20, told
