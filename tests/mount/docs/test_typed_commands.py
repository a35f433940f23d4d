"""Every complete command that README.md, bench/README.md and the manual print is typed in a shell, in a root folder and a mount
namespace of its own, where the places that the pages name are there: what is listed in NOT_TYPED apart."""

import contextlib
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from harness import daemon, data, pages, processes, servers

pytestmark = pytest.mark.release_only

BUILD = Path(daemon.BINARY).resolve().parent
PROGRAM = (r"(?:tierfs-stage|tierfs|iobench|mount|umount|setfattr|getfattr|mkfs\.\w+|fio|docker|gdsio|python3?|cmake|apt|export|while|done"
           r"|(?:packaging|tests|bench)/\S+)")
COMMAND = re.compile(rf"(?:sudo )?(?:[A-Z_]+=\S+ )*{PROGRAM}(?=\s|$)")

# What is printed and not typed: a pattern, and why.
NOT_TYPED = {
    r"packaging/dependencies( --build)?": "installs packages",
    r"packaging/quickstart": "installs packages; tests/runner and CI run it",
    r"packaging/make-deb": "test_package.py runs it",
    r"packaging/make-image .*": "test_image.py runs it",
    r"docker (load|run|exec) .*tierfs.*": "needs docker; test_image.py mounts in a container without it",
    r"apt install \./tierfs_\*\.deb": "installs the package; test_package.py does so in a root folder",
    r"tests/run": "is what runs this test",
    r"cmake --preset release && ninja -C build/release": "is how the programs that are typed here were built",
    r"bench/(compare-mounts|cold-path|pack|write-path|nfs-origin|front-end|tiers|read-path) .*":
        "measures for minutes, on fixed ports; one at a time on a machine",
    r"bench/gds-read .* --direct": "needs a GPU",
    r"gdsio .*": "needs a GPU",
    r"while sleep 60; do|done": "the loop is the reader's; what it repeats is typed",
}
# Words that stand for something.
PLACEHOLDERS = {"SOURCE": "s3://bucket/prefix", "MOUNTPOINT": "/mnt/data", "DIR": "/data/dir", "MATCH": "'/**'", "CLASS": "epoch",
                "OPTIONS": "allow_other", "MANIFEST": "data.manifest", "DEST": "s3://bucket/packs/prefix"}
# What has another name here, and what would take too long: a pattern, and what is typed instead.
INSTEAD = {
    r"nfs://server/export/path": "{nfs}",
    r"s3\.endpoint=https://s3\.example\.org": "s3.endpoint={endpoint}",
    r"--daemon-pid 1234": "--daemon-pid $PPID",
    r"--files 20000": "--files 200",
    r"model\.bin:2G": "model.bin:32M",
    r"(run .*--preset unet3d) --scale 0\.1": r"\1 --scale 0.01 --batch 1 --compute 1",
    r"(gen .*--preset unet3d) --scale 0\.1": r"\1 --scale 0.01",
    r"--epochs 3": "--epochs 2",
    r"--block-sizes 4K,64K,1M,16M": "--block-sizes 16M",
    r"--depths 1,8,32 --threads 1,4": "--depths 1,8 --threads 4",
    r"--preset retinanet --scale 0\.01": "--preset retinanet --scale 0.0001",
    r"--write-names 5000": "--write-names 100",
    r"--checkpoint-size 2G": "--checkpoint-size 4M",
    r"(tierfs trace .*) --seconds 600": r"(sleep 0.3; cat /mnt/data/train/*) >/dev/null & \1 --seconds 2",
    r"--seconds 2$": "--seconds 0.02",
    r"(--suite seqrand(?!.*--seconds).*)": r"\1 --seconds 0.02",
    r"--suite loader": "--suite loader --batches 4",
    r"--runs 5": "--runs 2",
    r"RUNTIME=30": "RUNTIME=1",
}
# Where another status than 0 is what the page says: a pattern, the status, and why.
STATUS = {
    r"tierfs-stage check /nvme0( --full)?": (1, "the direct path is not open: there is no GPU"),
}
# What goes on until a key is pressed.
KEYS = {r"tierfs top /mnt/data": b"q", r"tierfs trace /mnt/data": b"\x03"}
# Pages whose mounts are made by commands that they do not print.
MOUNTS = {
    "README.md": {"/mnt/data": "tierfs s3://bucket/prefix /mnt/data -o allow_other,nvme.path=/nvme/cache,nvme.limit=500G"},
    "bench/README.md": {"/mnt/data": "tierfs /data /mnt/data", "/mnt/unet3d": "tierfs /data/unet3d /mnt/unet3d",
                        "/mnt/small": "tierfs /data/small /mnt/small"},
    "man/iobench.1": {"/mnt/data": "tierfs /mnt/nfs/data /mnt/data -o rw"},
    "man/tierfs-guide.7": {"/mnt/data": "tierfs s3://bucket/prefix /mnt/data"},
    "man/tierfs.8": {"/mnt/data": "tierfs s3://bucket/prefix /mnt/data"},
}
DEVICES = ("nvme", "nvme0", "nvme1", "nvme2", "nvme3")


def is_complete(line, in_block):
    """Not a synopsis, nor a program's name and a verb in running text."""
    if re.search(r"\.\.\.|[\[\]|{}]", line):
        return False
    words = re.findall(r"(?<![\w.$/-])[A-Z]{3,}(?![\w/.=-])", line)
    return set(words) <= set(PLACEHOLDERS) and (in_block or bool(re.search(r"[ =]s?/|://|--(version|help|defaults)$", line)) or bool(words))


def commands(page):
    """The complete commands of a page; and lines beside them that look like none."""
    found, strange = [], []
    for block in pages.blocks(page):
        if any(COMMAND.match(line) for line in block):
            strange += [line for line in block if not COMMAND.match(line)]
            found += [line for line in block if COMMAND.match(line) and is_complete(line, True)]
    found += [line for line in pages.in_running_text(page) if is_complete(line, False)]
    return list(dict.fromkeys(line.removeprefix("sudo ") for line in found)), strange


def reason_not_to(line):
    return next((why for pattern, why in NOT_TYPED.items() if re.fullmatch(pattern, line)), None)


SETUP = r"""
set -e
root=$1; shift
mount -t tmpfs -o size=2G,mode=0755 tierfs-typed "$root"
cd "$root"
for top in bin lib lib32 lib64 libx32; do
    if [ -L /$top ]; then cp -P /$top .; elif [ -d /$top ]; then mkdir $top; mount --rbind /$top $top; fi
done
for top in usr proc sys; do mkdir $top; mount --rbind /$top $top; done
cp -a /etc etc
# Of the machine's own nothing can be written to.
mkdir -p mnt/data mnt/imagenet mnt/nfs mnt/unet3d mnt/small mnt/s3fs mnt/scratch data scratch/tmp tmp run/user opt/tierfs home/user \
    sbin var/tmp var/log var/cache var/lib dev/pts dev/shm etc/tierfs nvme nvme0 nvme1 nvme2 nvme3
chmod 1777 tmp var/tmp
cp -s /usr/sbin/* sbin/
ln -sfn /opt/tierfs/tierfs sbin/mount.fuse.tierfs  # in the place of the machine's own, where it has one
mount --bind "$BUILD" opt/tierfs
mkdir home/user/bench; mount --bind "$BENCH" home/user/bench
cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/ptmx /dev/fuse /dev/loop* dev/
ln -s /proc/self/fd dev/fd
mount --rbind /dev/pts dev/pts
mount -t tmpfs tierfs-typed dev/shm
for device in nvme nvme0 nvme1 nvme2 nvme3; do
    cp -a "$1" dev/${device}n1p1; cp -a "$1" dev/${device}n1
    if [ $device != "$BARE" ]; then
        mkfs.xfs -q -f "$1"
        chroot . mount -t xfs -o noatime,nouuid /dev/${device}n1p1 /$device
    fi
    shift
done
# What others have mounted is not to be held by this copy of it.
mkdir old
pivot_root . old
exec chroot . sh -c "umount -l /old && rmdir /old && echo > /ready && exec sleep infinity"
"""


class World:
    """A root folder in a mount namespace, where commands are typed."""

    def __init__(self, folder, environment, bare=None):
        self.root, self.folder, self.loops = folder / "root", folder, []
        self.root.mkdir()
        self.marker = f"tierfs-test-{uuid.uuid4().hex}"
        self.env = {name: value for name, value in daemon.environment(folder, self.marker, environment).items()
                    if name not in ("TMPDIR", "XDG_RUNTIME_DIR")}
        self.env.update(HOME="/home/user", PATH="/opt/tierfs:/home/user/venv/bin:/usr/sbin:/usr/bin:/sbin:/bin", TERM="xterm", LINES="24", COLUMNS="80")
        try:
            for name in DEVICES:
                image = folder / f"{name}.img"
                with open(image, "wb") as handle:
                    handle.truncate(320 << 20)
                self.loops.append(processes.check(["losetup", "--find", "--show", image]).out.strip())
            with open(folder / "setup.log", "wb") as log:
                self.holder = subprocess.Popen(
                    ["unshare", "--mount", "--propagation", "private", "bash", "-c", SETUP, "setup", str(self.root), *self.loops],
                    env={**self.env, "PATH": os.environ["PATH"], "BUILD": str(BUILD), "BENCH": str(daemon.REPOSITORY / "bench"),
                         "BARE": bare or ""}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            processes.wait_until(self.is_ready, what="the root folder")
        except BaseException:
            self.close()
            raise

    def is_ready(self):
        assert self.holder.poll() is None, (self.folder / "setup.log").read_text()
        return self.path("/ready").exists()

    def path(self, path):
        """A path of the root folder, as this process sees it."""
        return Path(f"/proc/{self.holder.pid}/root{path}")

    def words(self, line):
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", f"--root=/proc/{self.holder.pid}/root",
                f"--wd=/proc/{self.holder.pid}/root/home/user", "bash", "-c", line]

    def type(self, line, timeout=40):
        return processes.run(self.words(line), env=self.env, timeout=timeout, suspects=self.processes)

    def type_on_terminal(self, line, key):
        """On a terminal, where the key is pressed a second after the first output, or without any after some; and again
        and again, since a program that sets the terminal up forgets what was pressed before."""
        process, terminal = pty.fork()
        if process == 0:
            try:
                os.execvpe("nsenter", self.words(f"exec {line}"), self.env)
            finally:
                os._exit(127)  # no second pytest
        out, press, end = b"", time.monotonic() + 3 * processes.SLOWNESS, time.monotonic() + 30 * processes.SLOWNESS
        try:
            while True:
                if time.monotonic() > press:
                    os.write(terminal, key)
                    press = time.monotonic() + 2 * processes.SLOWNESS
                assert time.monotonic() < end, f"no end after the key: {line}\n{out.decode(errors='replace')}"
                if select.select([terminal], [], [], 0.1)[0]:
                    try:
                        got = os.read(terminal, 65536)
                    except OSError:  # nobody has the other side any more
                        got = b""
                    if not got:
                        break
                    if not out:
                        press = time.monotonic() + 1
                    out += got
            status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        except BaseException:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            raise
        finally:
            os.close(terminal)
        return processes.Finished(line, status, out.decode(errors="replace"), "")

    def is_mounted(self, place):
        with open(f"/proc/{self.holder.pid}/mountinfo", encoding="utf-8") as lines:
            return any(line.split()[4] == place and " - fuse.tierfs " in line for line in lines)

    def processes(self):
        return processes.with_marker(self.marker)

    def holds(self, loop):
        """Whether the loop device is still that of an image of this world; another one may have its number."""
        try:
            return str(self.folder) in Path(f"/sys/block/{Path(loop).name}/loop/backing_file").read_text()
        except OSError:
            return False

    def close(self):
        """Without its processes the namespace goes, and with it what is mounted there."""
        def end():
            processes.kill(pid for pid in self.processes() if pid != os.getpid())
            return not self.processes()
        processes.wait_until(end, what="nothing of the commands runs")
        if hasattr(self, "holder"):
            self.holder.wait()
        for loop in self.loops:
            processes.wait_until(lambda: processes.run(["losetup", "--detach", loop]).returncode == 0 and  # pylint: disable=cell-var-from-loop
                                 not self.holds(loop), what=f"{loop} is let go")
        for image in self.folder.glob("*.img"):
            image.unlink()


TRAIN = """
import os, sys
def make_loader(path, num_workers):
    files = sorted(os.path.join(place, name) for place, _, names in os.walk(path) for name in names)[:64]
    return [[open(name, "rb").read() for name in files[at:at + 8]] for at in range(0, len(files), 8)]
if __name__ == "__main__":
    os.makedirs(sys.argv[sys.argv.index("--checkpoints") + 1])
    open(sys.argv[sys.argv.index("--checkpoints") + 1] + "/model.pt", "wb").write(bytes(3 << 20))
"""


# Places that the commands of a page fill themselves.
MADE = {"man/iobench.1": ("/mnt/nfs/data", "/mnt/nfs/datasets"), "man/tierfs-stage.1": ("/data",)}


def fill(world, page, bucket):
    """What the reader of a page has before the first command."""
    home = world.path("/home/user")
    data.write(home / "train.py", TRAIN.encode())
    (home / "venv/bin").mkdir(parents=True)
    (home / "venv/bin/python").symlink_to("/usr/bin/python3")
    data.write(world.path("/etc/tierfs/tierfs.yaml"), (daemon.REPOSITORY / "config/tierfs.yaml").read_bytes())
    files = {f"{place}/f{number:03}": data.content(f"{place}{number}", 5000) for place in ("train", "val") for number in range(20)}
    for key, body in files.items():
        for place in ("/data", "/mnt/nfs", "/mnt/nfs/data", "/mnt/nfs/datasets", "/mnt/s3fs"):
            if place not in MADE.get(page, ()):
                data.write(world.path(f"{place}/{key}"), body)
    if page == "bench/README.md":
        data.write(world.path("/data/big.bin"), data.content("big", 4 << 20))
        data.write(world.path("/scratch/tmp/file"), b"x")
    for folder in ("/mnt/nfs/data", "/data/unet3d", "/data/small", "/data/dir"):
        world.path(folder).mkdir(parents=True, exist_ok=True)
    for folder in ("/nvme/ckpt", *(["/nvme0/checkpoints"] if page == "README.md" else [])):
        data.write(world.path(f"{folder}/step-100/model.pt"), data.content("model", 3 << 20))
    bucket({"bucket": ("prefix", "train", "data", "models/llama"), "datasets": ("imagenet",), "models": ()}, files)
    if page in ("bench/README.md", "man/iobench.1"):
        for command in ("iobench run --suite smallfiles --path a=/data --against b=/mnt/nfs --runs 6 --json result.json",
                        "cp result.json new.json", "cp result.json old.json",
                        *(["iobench gen /data/dir --files 20 --size 4K --manifest data.manifest"] if page == "man/iobench.1" else [])):
            finished = world.type(command)
            assert finished.returncode == 0, finished


@pytest.fixture(name="bucket", scope="module")
def make_buckets(rgw_server):
    """bucket({NAME: PREFIXES}, files): the objects that the pages name."""
    there = set()

    def make(buckets, files):
        for name, prefixes in buckets.items():
            if name in there:
                continue
            there.add(name)
            rgw_server.make_bucket(name)
            for prefix in prefixes:
                rgw_server.put_all(name, {f"{prefix}/{key}": body for key, body in files.items()})
    make.endpoint = rgw_server.endpoint
    yield make
    for name in there:
        rgw_server.drop_bucket(name)


def prepare(world, page, line):
    """Mounts what the command needs mounted, and unmounts where it mounts."""
    makes = re.match(r"(?:mount -t fuse\.tierfs|tierfs) (?:\S*/\S*) (/mnt/\S+)", line)
    if makes:
        if world.is_mounted(makes[1]):
            assert world.type(f"tierfs umount {makes[1]}").returncode == 0
        return
    for place, command in MOUNTS.get(page, {}).items():
        if re.search(rf"{place}\b", line) and not world.is_mounted(place):
            finished = world.type(command)
            assert finished.returncode == 0, finished


def real(line, names):
    for word, value in PLACEHOLDERS.items():
        line = re.sub(rf"(?<![\w/.-]){word}(?![\w/.=-])", value, line)
    for pattern, value in INSTEAD.items():
        line = re.sub(pattern, value.replace("{nfs}", names["nfs"]).replace("{endpoint}", names["endpoint"]), line)
    return line


@pytest.mark.drops_caches
@pytest.mark.parametrize("page", [page for page in pages.PAGES if commands(page)[0]], ids=pages.name_of)
def test_a_page_is_typed(page, bucket, exported, folder):
    name = pages.name_of(page)
    lines = [line for line in commands(page)[0] if reason_not_to(line) is None]
    data.make_files(exported.path, 5, 1000)
    names = {"nfs": shlex.quote(exported.url()), "endpoint": bucket.endpoint}
    environment = {"AWS_ACCESS_KEY_ID": servers.ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": servers.SECRET_KEY, "SLURM_JOB_ID": "4711",
                   "TIERFS_S3_ENDPOINT": bucket.endpoint, "TIERFS_S3_REGION": "us-east-1", "SLURM_ARRAY_TASK_ID": "0",
                   "SLURM_ARRAY_TASK_COUNT": "2"}
    bare = "nvme0" if any("mount -o noatime" in line for line in lines) else None
    wrong = []
    with contextlib.closing(World(folder, environment, bare)) as world:
        fill(world, name, bucket)
        for line in lines:
            begun = time.monotonic()
            typed = real(line, names)
            prepare(world, name, typed)
            key = next((key for pattern, key in KEYS.items() if re.fullmatch(pattern, line)), None)
            finished = world.type_on_terminal(typed, key) if key else world.type(typed)
            print(f"{time.monotonic() - begun:5.1f} s  {typed}  -> {finished.returncode}")
            expected = next((status for pattern, (status, _) in STATUS.items() if re.fullmatch(pattern, line)), 0)
            if finished.returncode != expected:
                wrong.append(f"{line}\n{finished}")
        for place in re.findall(r"\S+ \d+ \d+:\d+ \S+ (\S+) .* - fuse\.tierfs", "\n".join(reversed(
                Path(f"/proc/{world.holder.pid}/mountinfo").read_text(encoding="utf-8").splitlines()))):
            finished = world.type(f"tierfs umount {place}")
            assert finished.returncode == 0, finished
    assert not wrong, "\n\n".join(wrong)


def test_every_command_is_typed_or_listed():
    said = {line: pages.name_of(page) for page in pages.PAGES for line in commands(page)[0]}
    assert len(said) > 60
    strange = [f"{pages.name_of(page)}: {line}" for page in pages.PAGES for line in commands(page)[1]]
    assert not strange, f"beside commands, and no command that is known here: {strange}"
    for table in (NOT_TYPED, STATUS, KEYS):
        gone = [pattern for pattern in table if not any(re.fullmatch(pattern, line) for line in said)]
        assert not gone, f"no page prints it: {gone}"
    gone = [pattern for pattern in INSTEAD if not any(re.search(pattern, line) for line in said)]
    assert not gone, f"no page prints it: {gone}"
