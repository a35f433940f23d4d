"""Two writable mounts of one source and a plain client of it, at random, against a model that knows each version
(tests/conformance/two_hosts.py): a twentieth of a full run, and processes that act at the same time."""

import contextlib
import os
import random
import sys

import pytest

from harness import daemon, nfs

sys.path.insert(0, str(daemon.REPOSITORY / "tests/conformance"))
import two_hosts  # noqa: E402  pylint: disable=wrong-import-position
import two_hosts_faults  # noqa: E402  pylint: disable=wrong-import-position
import two_hosts_model  # noqa: E402  pylint: disable=wrong-import-position

FULL = os.environ.get("TIERFS_TEST_FULL", "") == "1"
FIXED = [1, 2]
RANDOM = int(os.environ.get("TIERFS_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
STEPS = {"directory": (5000, 1_000_000), "nfs": (1500, 100_000), "s3": (350, 100_000)}
FAULTS = {"directory": (2000, 100_000), "nfs": (300, 20_000), "s3": (100, 12_000)}
ACTS = {"directory": (400, 20_000), "nfs": (150, 6000), "s3": (30, 2000)}


def count(table, kind):
    """TIERFS_TEST_OPERATIONS asks for another count."""
    return int(os.environ.get("TIERFS_TEST_OPERATIONS") or table[kind][FULL])


@pytest.fixture(scope="module")
def asking_nfs_server(root):
    lacking = nfs.missing()
    if lacking:
        pytest.skip(f"not installed: {lacking} (packaging/dependencies --test)")
    server = nfs.Ganesha(root / "nfs-asking", remembers=False)
    yield server
    server.stop()


@pytest.fixture(params=["directory", "nfs", "s3"])
def kind(request):
    return request.param


@pytest.fixture
def two(kind, request, mount, folder):
    """two(ttl): both mounts, and the place of the plain client."""
    more, env = {}, {}
    if kind == "directory":
        what = place = request.getfixturevalue("origin")
    elif kind == "nfs":
        # One that asks for each listing has shown empty ones to who listed while names came and went.
        is_race = request.function is test_at_the_same_time
        server = request.getfixturevalue("nfs_server" if is_race else "asking_nfs_server")
        place = server.data / folder.name
        place.mkdir()
        what = server.url(folder.name)
    else:
        bucket = request.getfixturevalue("rgw_bucket")
        what, more, env, place = bucket.source(), bucket.options(), bucket.env, (bucket.server.client, bucket.name)

    def start(ttl):
        mounts = []
        for name in "AB":
            cache = folder / f"cache{name}"
            cache.mkdir(mode=0o700)
            mounts.append(mount(what, {"rw": None, "metadata.ttl": ttl, "log.level": "info", "nvme.path": str(cache), "nvme.limit": "1G", **more},
                                env=env))
        return mounts, place
    return start


@pytest.mark.release
@pytest.mark.parametrize("seed", [*FIXED, RANDOM], ids=[*map(str, FIXED), "random"])
def test_two_hosts_and_a_plain_client(kind, two, seed):
    print(f"seed {seed}")
    mounts, place = two("0s")
    two_hosts.play(two_hosts.steps_of(kind, mounts, place, seed, "0s"), count(STEPS, kind))


def test_what_others_changed_is_believed_for_the_ttl_at_most(kind, two):
    print(f"seed {RANDOM}")
    mounts, place = two("300ms")
    two_hosts.play(two_hosts.steps_of(kind, mounts, place, RANDOM, "300ms"), max(100, count(STEPS, kind) // 30))


@pytest.mark.release
def test_at_the_same_time(kind, two, folder):
    mounts, place = two("0s")
    two_hosts.race_of(kind, mounts, place, folder, RANDOM, count(ACTS, kind), "0s")


@pytest.mark.parametrize("wrong", ["byte", "size", "name", "mode", "mixture"])
def test_the_model_notices(folder, wrong):
    """Plain folders instead of mounts, which somebody spoils."""
    (folder / "origin").mkdir()
    hosts = [two_hosts.Host(name, folder / "origin") for name in "AB"]
    steps = two_hosts.Steps(hosts, two_hosts.Host("P", folder / "origin", is_mount=False), 1)
    steps.run(300)
    node = two_hosts_model.Node("f", 0o644, two_hosts_model.piece(9999, 0, 10_000))
    steps.added("spoilt", node)
    at = folder / "origin/spoilt"
    at.write_bytes(node.data)
    at.chmod(node.mode)
    steps.compare()
    if wrong == "byte":
        at.write_bytes(node.data[:-1] + b"!")
    elif wrong == "size":
        os.truncate(at, 4096)
    elif wrong == "name":
        os.link(at, folder / "origin/x")
    elif wrong == "mode":
        os.chmod(at, 0o751)
    else:
        at.write_bytes(node.data[:4096] + two_hosts_model.piece(99_999, 4096, len(node.data) - 4096))
    with pytest.raises(two_hosts_model.Wrong):
        steps.compare()


@pytest.mark.release
def test_while_answers_are_lost_and_daemons_are_killed(kind, request, mount, folder):
    """tests/conformance/two_hosts_faults.py, for a moment."""
    print(f"seed {RANDOM}")
    with contextlib.ExitStack() as stack:
        options, env, proxy = {"rw": None, "metadata.ttl": "0s", "log.level": "info"}, {}, None
        if kind == "directory":
            what = request.getfixturevalue("origin")
            client = two_hosts_faults.Folder(what)
        elif kind == "nfs":
            server = request.getfixturevalue("asking_nfs_server")
            (server.data / folder.name).mkdir()
            client = two_hosts_faults.Folder(server.data / folder.name)
            proxy = stack.enter_context(two_hosts_faults.Proxy(("127.0.0.1", server.port), tcp=True))
            what = server.url(folder.name, port=proxy.port)
        else:
            bucket = request.getfixturevalue("rgw_bucket")
            direct = int(bucket.server.client.meta.endpoint_url.rpartition(":")[2])
            proxy = stack.enter_context(two_hosts_faults.Proxy(("127.0.0.1", direct)))
            what, env, client = bucket.source(), bucket.env, two_hosts_faults.Client(bucket.server.client, bucket.name)
            options = two_hosts_faults.options_for(proxy, "0s")
        mounts = [mount(what, options, env=env) for _ in "AB"]
        hosts = [two_hosts_faults.Host(name, one) for name, one in zip("AB", mounts)]
        print(two_hosts_faults.play(hosts, client, proxy, RANDOM, count(FAULTS, kind)))
        for one in mounts:
            one.umount()


def test_the_model_of_faults_notices(folder):
    """A plain folder instead of mounts, in which acknowledged bytes are lost."""
    (folder / "origin").mkdir()

    class Plain:
        path, log = folder / "origin", folder / "log"
    Plain.log.write_text("")
    client = two_hosts_faults.Folder(folder / "origin")
    weak = two_hosts_faults.WeakFiles([two_hosts_faults.Host(name, Plain) for name in "AB"], client, None, 1, False, False)
    weak.run(500)
    path = next(path for path, there in weak.there.items() if None not in there)
    (folder / "origin" / path).unlink()
    with pytest.raises(two_hosts_model.Wrong):
        weak.compare()
