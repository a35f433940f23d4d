"""Random operations on a writable mount against models (tests/conformance/), and programs that people use."""

import importlib.machinery
import importlib.util
import os
import random
import re
import sys

import pytest

from harness import daemon, data, processes

sys.path.insert(0, str(daemon.REPOSITORY / "tests/conformance"))
import fsx  # noqa: E402  pylint: disable=wrong-import-position
import tree  # noqa: E402  pylint: disable=wrong-import-position

FULL = os.environ.get("TIERFS_TEST_FULL", "") == "1"
SEED = int(os.environ.get("TIERFS_TEST_SEED") or (random.SystemRandom().randrange(1 << 32) if FULL else 1))


def count(full, default):
    """Operations or steps of a run. TIERFS_TEST_OPERATIONS asks for others: a large number can be had in pieces."""
    return int(os.environ.get("TIERFS_TEST_OPERATIONS") or (full if FULL else default))


@pytest.fixture
def operations():
    return count(1_000_000, 4000)


@pytest.fixture
def lacks():
    """Operations that the origin has not."""
    return ()


@pytest.fixture
def ways():
    """Values of writes.passthrough that make a difference to the origin."""
    return ("true", "false")


@pytest.fixture(params=["true", "false"])
def way(request, ways):
    if request.param not in ways:
        pytest.skip("the kernel writes files of directories alone")
    return {"writes.passthrough": request.param}


@pytest.mark.release
def test_files_against_a_model_in_memory(origin, mount, cache, lacks, operations, way):
    m = mount(origin, {"rw": None, **cache, **way})

    def remount():
        m.umount()
        m.start()

    exerciser = fsx.Exerciser(m.path, SEED, rest=1.5, remount=remount, lacks=lacks)
    try:
        exerciser.run(operations, pauses=max(3, operations // 25_000), remounts=max(2, operations // 50_000))
    except (fsx.Mismatch, OSError) as problem:
        raise AssertionError("\n".join([f"seed {SEED}", *exerciser.last, str(problem)])) from problem
    finally:
        exerciser.close()
    status = m.status()
    assert status["writes"]["errors"] == 0 and status["reads"]["errors"] == 0


@pytest.mark.release
def test_tree_against_a_native_directory(origin, mount, folder, lacks, way):
    oracle = folder / "oracle"
    oracle.mkdir()
    m = mount(origin, {"rw": None, "metadata.ttl": "1h", **way})
    walker = tree.Walker(m.path, oracle, SEED, lacks=lacks)
    try:
        walker.run(count(100_000, 5000))
    except tree.Different as problem:
        raise AssertionError("\n".join([f"seed {SEED}", *walker.last, str(problem)])) from problem
    finally:
        walker.close()
    processes.wait_until(lambda: not tree.hidden_below(origin), what="the hidden names are gone")
    after = tree.Walker(origin, oracle, SEED)
    after.compare()


@pytest.mark.parametrize("wrong", ["byte", "mode", "name"])
def test_differences_are_noticed(folder, wrong):
    """What would tell of a wrong file system does."""
    ours, theirs = folder / "ours", folder / "theirs"
    for place in (ours, theirs):
        place.mkdir()
        data.write(place / "a", b"content")
    if wrong == "byte":
        data.write(ours / "a", b"c0ntent")
    elif wrong == "mode":
        os.chmod(ours / "a", 0o600)
    else:
        (ours / "b").touch()
    os.utime(ours / "a", (1, 1))
    os.utime(theirs / "a", (1, 1))
    with pytest.raises(tree.Different):
        tree.Walker(ours, theirs, 1).compare()
    exerciser = fsx.Exerciser(folder, 1)
    exerciser.files[0].model = bytearray(b"x")
    with pytest.raises(fsx.Mismatch):
        exerciser.files[0].whole()
    exerciser.close()


def run_in(place, script, timeout=120):
    return processes.check(["sh", "-euc", script], cwd=place, timeout=timeout,
                           env={**os.environ, "HOME": str(place), "GIT_CONFIG_NOSYSTEM": "1"})


def need(*programs):
    for program in programs:
        if processes.run(["which", program]).returncode != 0:
            pytest.skip(f"{program} is not installed (packaging/dependencies --test)")


@pytest.fixture
def place(origin, mount):
    return mount(origin, {"rw": None}).path


def test_git(place, origin):
    need("git")
    run_in(place, """
        git init -q one && cd one && git config user.email a@example.org && git config user.name A
        for i in $(seq 60); do mkdir -p d$((i % 7)); echo "content $i" > d$((i % 7))/f$i; done
        git add . && git commit -qm first && git mv d1 moved && echo more >> d2/f2 && git commit -qam second
        cd .. && git clone -q one two && cd two && git checkout -q HEAD~1 && git checkout -q - && git gc -q && git fsck
        test -z "$(git status --porcelain)" && diff -r --exclude .git ../one .""")
    processes.check(["git", "-c", "safe.directory=*", "-C", origin / "two", "fsck"])


@pytest.mark.release
def test_build(place):
    """make looks at times: a second run has nothing to do, a touched source is compiled again."""
    need("make", "cc")
    run_in(place, r"""
        for i in 1 2 3; do echo "int f$i(void) { return $i; }" > f$i.c; done
        echo 'int f1(void), f2(void), f3(void); int main(void) { return f1() + f2() + f3() - 6; }' > main.c
        printf 'prog: main.o f1.o f2.o f3.o libx.a\n\tcc -o $@ main.o libx.a\nlibx.a: f1.o f2.o f3.o\n\tar rcs $@ $^\n' > Makefile
        make -s && ./prog && make -q
        echo 'int f2(void) { return 3; }' > f2.c && touch -d '+2 seconds' f2.c && make -s && ! ./prog""")


@pytest.mark.release
def test_sqlite(place, origin):
    need("sqlite3")
    for journal in ("delete", "wal"):
        run_in(place, f"""
            sqlite3 {journal}.db "pragma journal_mode={journal}; create table t(a integer primary key, b text);"
            for i in 1 2 3; do (for n in $(seq 20); do echo "insert into t(b) values('row $n of $i');"; done) |
                sqlite3 -cmd '.timeout 60000' {journal}.db & done; wait
            test "$(sqlite3 {journal}.db 'select count(*) from t')" = 60
            test "$(sqlite3 {journal}.db 'pragma integrity_check')" = ok""")


def test_tar_and_rsync(place, folder):
    need("tar", "rsync")
    data.make_files(folder / "from", 100, 5000)
    os.symlink("d00", folder / "from/link")
    os.link(folder / "from/d00" / sorted(os.listdir(folder / "from/d00"))[0], folder / "from/hard")
    os.chmod(folder / "from/d01", 0o711)
    run_in(place, f"""
        tar -C {folder} -cf - from | tar -xpf - && diff -r --no-dereference {folder}/from from
        test "$(stat -c %h from/hard)" = 2 && test "$(stat -c %a from/d01)" = 711
        tar -cf again.tar from && mkdir out && tar -C out -xf again.tar && diff -r --no-dereference from out/from
        mkdir synced && rsync -aHX {folder}/from/ synced/ && diff -r --no-dereference from synced
        echo more >> {folder}/from/hard && rm {folder}/from/link && rsync -aHX --delete {folder}/from/ synced/
        diff -r --no-dereference {folder}/from synced && test -z "$(rsync -aHXi --delete {folder}/from/ synced/)\"""")


def test_editors_and_checkpoints(place, origin):
    """Write beside, sync, rename over; backups by link; and one process that is killed in the middle."""
    run_in(place, r"""
        echo old > file && ln file file~ && echo new > .file.tmp && sync .file.tmp && mv .file.tmp file
        test "$(cat file)" = new && test "$(cat file~)" = old
        for step in 1 2 3 4; do
            for rank in 0 1; do dd if=/dev/urandom of=ckpt.tmp.$rank bs=64k count=20 conv=fsync status=none; done
            mkdir step-$step && mv ckpt.tmp.* step-$step && ln -sfn step-$step latest
            rm -rf step-$((step - 2))
        done
        test "$(readlink latest)" = step-4 && test "$(ls | grep -c '^step-')" = 2
        (dd if=/dev/zero of=killed.tmp bs=4k count=100000 status=none & pid=$!; sleep 0.1; kill -9 $pid; wait $pid) || true
        test ! -e killed && sed -i s/new/newer/ file && test "$(cat file)" = newer""")
    assert (origin / "file").read_text() == "newer\n"


def test_known_failures_of_xfstests():
    """As many as tierfs-semantics(7) says; the tests themselves are not here."""
    path = daemon.REPOSITORY / "tests/conformance/xfstests"
    loader = importlib.machinery.SourceFileLoader("xfstests", str(path))
    xfstests = importlib.util.module_from_spec(importlib.util.spec_from_loader("xfstests", loader))
    loader.exec_module(xfstests)
    manual = (daemon.REPOSITORY / "man/tierfs-semantics.7").read_text(encoding="utf-8")
    assert f" and {len(xfstests.known_failures())} of these fail" in manual
    said = ("Ran: generic/001 generic/003 generic/009\nNot run: generic/009\nFailures: generic/003\nFailed 1 of 3 tests\n")
    assert xfstests.compare(said) and not xfstests.compare(said.replace("Failures: generic/003", "Failures: generic/001"))
    assert re.search(r"generic/quick 190 ", manual)
