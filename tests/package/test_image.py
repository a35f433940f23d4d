"""The container image: a layout as the specification has it, of what runs and nothing else, the same whenever it is made; and a
mount by the process that is number 1 of a PID namespace, with the capabilities that a container gets."""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import ssl
import tarfile
from pathlib import Path

import pytest

from conftest import REPOSITORY, must, run
from container import Container, wait_until

MAKE = REPOSITORY / "packaging/make-image"
MOST = 100 << 20  # bytes, unpacked
FILES = re.compile(r"usr/bin/(tierfs|tierfs-stage|iobench)|usr/lib/([a-z0-9_-]+/)?[\w+.-]+\.so[\w.]*|usr/lib/os-release"
                   r"|etc/(passwd|group|nsswitch\.conf|ssl/certs/ca-certificates\.crt)"
                   r"|usr/share/(doc/[a-z0-9.+-]+/copyright|common-licenses/[\w.-]+)|var/lib/dpkg/status\.d/[a-z0-9.+-]+")
LINKS = re.compile(r"lib\w*|usr/lib\w*/([\w-]+/)?[\w+.-]+\.so[\w.]*|etc/os-release|usr/share/common-licenses/[\w.-]+")
TOP = {"dev", "etc", "home", "lib", "lib64", "mnt", "proc", "root", "run", "sys", "tmp", "usr", "var"}


@pytest.fixture(scope="session", name="image")
def made_image(package, folder):
    made = folder / "tierfs.oci.tar"
    assert must(MAKE, package, made) == f"{made}\n"
    return made


@pytest.fixture(scope="session", name="layout")
def files_of_the_archive(image):
    with tarfile.open(image) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar if entry.isfile()}


@pytest.fixture(scope="session", name="described")
def manifest_and_config(layout):
    def blob(about):
        body = layout[f"blobs/{about['digest'].replace(':', '/')}"]
        assert len(body) == about["size"] and f"sha256:{hashlib.sha256(body).hexdigest()}" == about["digest"]
        return body
    index = json.loads(layout["index.json"])
    manifest = json.loads(blob(index["manifests"][0]))
    return index, manifest, json.loads(blob(manifest["config"])), gzip.decompress(blob(manifest["layers"][0]))


@pytest.fixture(scope="session", name="members")
def members_of_the_layer(described):
    with tarfile.open(fileobj=io.BytesIO(described[3])) as tar:
        return tar.getmembers()


@pytest.fixture(scope="session", name="system")
def unpacked_image(described, folder):
    if os.geteuid() != 0:
        pytest.skip("a root folder of other owners needs root")
    path = folder / "image"
    path.mkdir()
    (folder / "layer.tar").write_bytes(described[3])
    must("tar", "-xpf", folder / "layer.tar", "-C", path, "--numeric-owner")
    return path


def test_layout_is_valid(layout, described, package):
    index, manifest, config, layer = described
    version = must("dpkg-deb", "-f", package, "Version").strip()
    assert json.loads(layout["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    assert index["schemaVersion"] == manifest["schemaVersion"] == 2
    types = [index["mediaType"], index["manifests"][0]["mediaType"], manifest["mediaType"], manifest["config"]["mediaType"],
             manifest["layers"][0]["mediaType"]]
    assert [name.removeprefix("application/vnd.oci.image.") for name in types] == [
        "index.v1+json", "manifest.v1+json", "manifest.v1+json", "config.v1+json", "layer.v1.tar+gzip"]
    assert len(index["manifests"]) == len(manifest["layers"]) == 1
    assert config["rootfs"] == {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}
    assert config["os"] == "linux" and config["config"]["Entrypoint"] == ["/usr/bin/tierfs"]
    assert index["manifests"][0]["platform"] == {"os": "linux", "architecture": config["architecture"]}
    assert index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"] == version
    labels = {key.removeprefix("org.opencontainers.image."): value for key, value in config["config"]["Labels"].items()}
    assert labels["version"] == version and labels["licenses"] == "Apache-2.0" and labels["created"] == config["created"]
    blobs = {name for name in layout if name.startswith("blobs/")}
    named = {about["digest"] for about in (index["manifests"][0], manifest["config"], manifest["layers"][0])}
    assert blobs == {f"blobs/{digest.replace(':', '/')}" for digest in named}
    older = json.loads(layout["manifest.json"])[0]
    assert {older["Config"], *older["Layers"]} < blobs and older["RepoTags"] == [f"tierfs:{version}"]


def test_the_same_packages_give_the_same_archive(image, package, root, tmp_path):
    """Made at another time, in another folder, from a root folder whose database has another path."""
    words = ("env", "TZ=Asia/Tokyo", "LC_ALL=C", "PYTHONHASHSEED=7", MAKE, "--from", root.path, package)
    must(*words, cwd=tmp_path)
    made = list(tmp_path.glob("tierfs_*.oci.tar"))
    assert len(made) == 1 and made[0].read_bytes() == image.read_bytes()


def test_what_runs_is_in_it_and_nothing_else(members, layout):
    files = {member.name for member in members if member.isfile()}
    assert not [name for name in files if not FILES.fullmatch(name)]
    assert not [member.name for member in members if member.issym() and not LINKS.fullmatch(member.name)]
    assert all(member.isfile() or member.issym() or member.isdir() for member in members)
    assert {member.name.partition("/")[0] for member in members} <= TOP
    assert {"usr/bin/tierfs", "usr/bin/tierfs-stage", "usr/bin/iobench"} <= files
    size = sum(member.size for member in members)
    print(f"{size / 1e6:.1f} MB unpacked, {sum(map(len, layout.values())) / 1e6:.1f} MB in the archive")
    assert size < MOST, size


def test_nobody_gets_rights_by_it(members):
    assert [member.name for member in members if member.mode & 0o6000] == []
    assert {member.name for member in members if member.mode & 0o002 and not member.issym()} == {"tmp", "var/tmp"}
    assert {member.name for member in members if member.uid or member.gid} == {"home/tierfs"}
    assert len({member.mtime for member in members}) == 1


def test_licences_of_all_that_is_contained(system):
    packages = {file.name for file in (system / "var/lib/dpkg/status.d").iterdir()}
    documents = {file.parent.name for file in system.glob("usr/share/doc/*/copyright")}
    assert packages == documents and {"tierfs", "libc6", "ca-certificates"} <= packages
    referred = set()
    for name in documents:
        text = (system / f"usr/share/doc/{name}/copyright").read_text(errors="replace")
        referred |= set(re.findall(r"/usr/share/common-licenses/([\w-]+(?:\.\d+)?)", text))
    assert "LGPL-2.1" in referred
    assert not [name for name in referred if not (system / "usr/share/common-licenses" / name).is_file()]
    record = (system / "var/lib/dpkg/status.d/libc6").read_text()
    assert f"Version: {must('dpkg-query', '-W', '-f', '${Version}', 'libc6')}\n" in record


def test_certificates_are_those_of_the_package(system):
    bundle = system / "etc/ssl/certs/ca-certificates.crt"
    assert len(ssl.create_default_context(cafile=bundle).get_ca_certs()) > 100
    for own in Path("/usr/local/share/ca-certificates").rglob("*.crt"):
        assert own.read_text().strip() not in bundle.read_text(), f"{own} is of this machine"


def test_everything_finds_its_libraries_in_it(system):
    loader = next(system.glob("usr/lib*/ld-linux*.so.*"))
    elves = [file for file in system.glob("usr/**/*") if file.is_file() and not file.is_symlink() and
             file.read_bytes()[:4] == b"\x7fELF" and not file.name.startswith("ld-linux")]
    assert len(elves) > 30
    listed = set()
    for file in elves:
        said = must("chroot", system, f"/{loader.relative_to(system)}", "--list", f"/{file.relative_to(system)}")
        listed |= {os.path.realpath(f"{system}{path}") for path in re.findall(r"=> (/\S+) \(", said) if "/ld-linux" not in path}
        assert "not found" not in said, said
    # Each library is there since something needs it.
    assert {str(file) for file in elves if file.parent.name != "bin"} == listed


@pytest.mark.parametrize("user", ["root", "tierfs"])
def test_programs_run(system, user):
    for program in ("tierfs", "tierfs-stage", "iobench"):
        assert run("chroot", f"--userspec={user}", system, f"/usr/bin/{program}", "--version").stdout.startswith(program)
        assert "Usage:" in must("chroot", f"--userspec={user}", system, f"/usr/bin/{program}", "--help")


@pytest.fixture(name="container")
def mounting_container(system, tmp_path):
    with Container(system, tmp_path) as container:
        yield container


def test_mounts_for_others_and_ends_with_its_signal(container):
    container.start("/data", "/mnt/data", "-f", "-o", "allow_other,memory.limit=128M")
    assert (container.outside / "data/file").read_text() == "hello"
    status = json.loads(container.must("/usr/bin/tierfs", "status", "/mnt/data", "--json"))
    assert status["supervisor_pid"] == 1 and status["read_only"] is True
    assert "/data" in container.must("/usr/bin/tierfs", "status", "/mnt/data")
    assert container.run("/usr/bin/tierfs", "status", "/mnt").returncode == 1
    container.leave_an_orphan()
    assert container.stop() == 0, container.log()
    assert "killed" not in container.log() and "has ended" in container.log()
    assert container.mounts() == [] and list((container.outside / "data").iterdir()) == []
    assert not list((container.root / "run/tierfs").glob("*.sock"))


def test_a_dead_mount_is_replaced_by_the_next_container(container):
    """The daemon dies with the container's first process, before it can unmount."""
    words = ("/data", "/mnt/data", "-f", "-o", "allow_other,memory.limit=128M")
    container.start(*words)
    status = json.loads(container.must("/usr/bin/tierfs", "status", "/mnt/data", "--json"))
    if status["supervisor"]["enabled"] is True:
        container.must("/usr/bin/tierfs", "reload", "/mnt/data")
        assert (container.outside / "data/file").read_text() == "hello"
    container.kill()
    assert len(container.mounts()) == 1
    container.start(*words)
    assert (container.outside / "data/file").read_text() == "hello"
    assert container.stop() == 0 and container.mounts() == []


@pytest.fixture(name="little")
def little_package(tmp_path):
    """A package of a program that needs the C library alone."""
    root = tmp_path / "little"
    for place, body in (("usr/bin/tierfs", Path("/usr/bin/true").read_bytes()),
                        ("usr/share/doc/tierfs/copyright", (REPOSITORY / "packaging/deb/copyright").read_bytes()),
                        ("DEBIAN/control", b"Package: tierfs\nVersion: 1:2+next~3\nArchitecture: " +
                         must("dpkg", "--print-architecture").encode() + b"Maintainer: A <a@b.example>\nDescription: d\n")):
        (root / place).parent.mkdir(parents=True)
        (root / place).write_bytes(body)
    must("dpkg-deb", "-Znone", "--root-owner-group", "--build", root, tmp_path / "little.deb")
    return tmp_path / "little.deb"


def test_time_is_what_was_asked_for(little, tmp_path):
    made = tmp_path / "image.tar"
    must("env", "SOURCE_DATE_EPOCH=86400", MAKE, little, made)
    with tarfile.open(made) as tar:
        assert {entry.mtime for entry in tar} == {86400}
        configs = [json.loads(body) for body in (tar.extractfile(entry).read() for entry in tar if 0 < entry.size < 4096)
                   if b'"rootfs"' in body]
        index = json.load(tar.extractfile("index.json"))
    assert configs[0]["created"] == "1970-01-02T00:00:00Z"
    # A tag has no signs but these.
    assert index["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"] == "1-2-next-3"
    done = run("env", "SOURCE_DATE_EPOCH=today", MAKE, little, made)
    assert done.returncode == 1 and "SOURCE_DATE_EPOCH is 'today'" in done.stderr, done


def test_says_what_is_missing(package, tmp_path):
    assert run(MAKE, "--help").stdout.startswith("Makes a container image")
    assert run(MAKE).returncode == 2 and "DEB" in run(MAKE).stderr
    for words, told in (((tmp_path / "none.deb",), "is not there: packaging/make-deb makes the package"),
                        (("--from", tmp_path, package), "has no packages (no var/lib/dpkg/status): give --from")):
        done = run(MAKE, *words)
        assert done.returncode == 1 and told in done.stderr, done
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(
        "Package: libcurl4\nStatus: install ok installed\nArchitecture: amd64\nVersion: 0.1\n\n")
    done = run(MAKE, "--from", tmp_path, package)
    assert done.returncode == 1
    wanted = rf"chroot {tmp_path} apt-get install .*\blibcurl4\b.*\blibrocksdb\S+ .*ca-certificates$"
    assert re.search(wanted, done.stderr.strip()), done


def test_other_tools_read_it(image, described, tmp_path):
    if not shutil.which("skopeo"):
        pytest.skip("skopeo is not installed")
    index, _, config, _ = described
    seen = json.loads(must("skopeo", "inspect", f"oci-archive:{image}"))
    assert seen["Digest"] == index["manifests"][0]["digest"] and seen["Labels"] == config["config"]["Labels"]
    assert json.loads(must("skopeo", "inspect", f"docker-archive:{image}"))["Created"] == config["created"]
    if shutil.which("umoci"):
        must("tar", "-xf", image, "-C", tmp_path)
        must("umoci", "unpack", "--image", f"{tmp_path}:{config['config']['Labels']['org.opencontainers.image.version']}",
             tmp_path / "bundle")
        assert json.loads((tmp_path / "bundle/config.json").read_text())["process"]["args"][0] == "/usr/bin/tierfs"


def test_podman_runs_it(image, folder):
    if not shutil.which("podman"):
        pytest.skip("podman is not installed")
    podman = ("podman", "--storage-driver", "vfs", "--root", folder / "podman", "--runroot", folder / "podman-run",
              "--cgroup-manager", "cgroupfs")
    (folder / "source").mkdir()
    (folder / "source/file").write_text("hello")
    try:
        name = must(*podman, "load", "-i", image).split()[-1]
        one = (*podman, "run", "--network", "none", "--cgroups", "disabled", "--ulimit", "nofile=1024:1024",
               "--ulimit", "nproc=1024:1024")
        done = run(*one, "--rm", name, "--version")
        if done.returncode in (125, 126):
            pytest.skip(f"podman runs no container here: {done.stderr.strip()[-200:]}")
        assert done.stdout.startswith("tierfs "), done
        must(*one, "-d", "--name", "mount", "--device", "/dev/fuse", "--cap-add", "SYS_ADMIN", "-v", f"{folder}/source:/data:ro",
             name, "/data", "/mnt/data", "-f", "-o", "memory.limit=128M")
        wait_until(lambda: "serving" in run(*podman, "logs", "mount").stderr, "the mount")
        must(*podman, "exec", "mount", "tierfs", "status", "/mnt/data")
        must(*podman, "stop", "--time", "30", "mount")
        assert must(*podman, "inspect", "mount", "--format", "{{.State.ExitCode}}").strip() == "0"
    finally:
        run(*podman, "rm", "--all", "--force")
