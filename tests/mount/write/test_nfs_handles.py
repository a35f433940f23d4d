"""Files of an NFS server whose creation was not answered."""

import errno
import os
import time

import pytest

from harness import data, processes
from test_write import error_of

SETATTR, CREATE = 2, 8  # RFC 1813


@pytest.mark.parametrize("lost", ["CREATE's answer", "SETATTR"])
def test_file_whose_create_was_not_answered(exported, relay, mount, lost):
    """Servers keep the verifier of an exclusive CREATE in the times of the file until a SETATTR follows."""
    m = mount.prepare(exported.url(port=relay.port), {"rw": None, "origin.deadline": "2s"}).start()
    if lost == "SETATTR":
        relay.lost = (SETATTR,)
    else:
        relay.unheard = (CREATE,)
    assert error_of(os.open, m.path / "file", os.O_CREAT | os.O_WRONLY, 0o640) in (errno.ETIMEDOUT, errno.EIO)
    assert (exported.path / "file").exists() and abs(os.stat(exported.path / "file").st_mtime - time.time()) > 3600
    relay.lost = relay.unheard = ()
    processes.wait_until(lambda: abs(os.stat(exported.path / "file").st_mtime - time.time()) < 600, what="its times are right")
    seen = os.stat(exported.path / "file")
    assert seen.st_mode & 0o777 == 0o640 and abs(seen.st_atime - time.time()) < 600
    (m.path / "file").write_bytes(b"goes on")
    assert (exported.path / "file").read_bytes() == b"goes on"


def test_file_whose_create_reaches_a_server_that_was_silent(own_nfs_server, mount):
    """It may be carried out after its client has given up."""
    m = mount.prepare(own_nfs_server.url("", mode="soft"), {"rw": None, "origin.deadline": "1s"}).start()
    os.listdir(m.path)
    own_nfs_server.pause()
    try:
        assert error_of(os.open, m.path / "file", os.O_CREAT | os.O_WRONLY, 0o640) in (errno.ETIMEDOUT, errno.EIO)
    finally:
        own_nfs_server.resume()

    def is_right():
        names = os.listdir(own_nfs_server.data)
        return not names or abs(os.stat(own_nfs_server.data / "file").st_mtime - time.time()) < 600
    time.sleep(2)
    processes.wait_until(is_right, what="its times are right")
