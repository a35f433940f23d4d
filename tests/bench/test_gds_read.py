"""bench/gds-read: O_DIRECT on whatever is below the test's folder, and cuFile on stand-ins for NVIDIA's libraries, which
keep a GPU's memory in the processor's and count reads as the test says. No GPU is needed, and none is used."""

import json
import os
import random
import shutil
import subprocess
import sys

import pytest

from conftest import REPOSITORY, SLOWNESS

TOOL = REPOSITORY / "bench/gds-read"

CUDA = r"""
#include <stdlib.h>
#include <string.h>
int cuInit(unsigned flags) { (void)flags; return 0; }
int cuDeviceGetCount(int* count) { *count = getenv("STUB_NO_GPU") ? 0 : 1; return 0; }
int cuDeviceGet(int* device, int number) { *device = number; return number == 0 ? 0 : 101; }
int cuDevicePrimaryCtxRetain(void** context, int device) { (void)device; *context = context; return 0; }
int cuCtxSetCurrent(void* context) { return context ? 0 : 201; }
int cuDeviceGetName(char* name, int length, int device) { (void)device; strncpy(name, "Stub GPU", length); return 0; }
int cuMemAlloc_v2(unsigned long long* address, size_t size) {
    void* memory = aligned_alloc(65536, (size + 65535) / 65536 * 65536);
    *address = (unsigned long long)memory;
    return memory ? 0 : 2;
}
int cuMemFree_v2(unsigned long long address) { free((void*)address); return 0; }
int cuMemcpyDtoH_v2(void* to, unsigned long long from, size_t size) {
    memcpy(to, (void*)from, size);
    if (getenv("STUB_WRONG")) *(char*)to ^= 1;
    return 0;
}
"""

CUFILE = r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>
typedef struct { int err, cu_err; } Error;
typedef struct { int type; union { int fd; void* handle; } handle; const void* fs_ops; } Description;
typedef struct {
    char uuid[16];
    uint64_t bytes, bandwidth, utilization, duration, total, p2p, nvfs, posix, rest[21];
} Gpu;
typedef struct { uint64_t level1[64], level2[64]; uint32_t count; Gpu gpus[16]; } Level3;
static long reads;
static const Error right = {0, 0};
static int is(const char* path) { return getenv("STUB_PATH") && !strcmp(getenv("STUB_PATH"), path); }
static Error wrong(int code) { Error error = {code, 0}; return error; }
Error cuFileDriverOpen(void) { return is("broken") ? wrong(5001) : right; }
Error cuFileDriverClose(void) {
    /* The configuration that it was given names a folder for the log: the test's stand-in is "cufile.json"'s own. */
    if (is("old")) {
        char path[4096];
        snprintf(path, sizeof path, "%.*s/cufile.log",
                 (int)(strrchr(getenv("CUFILE_ENV_PATH_JSON"), '/') - getenv("CUFILE_ENV_PATH_JSON")),
                 getenv("CUFILE_ENV_PATH_JSON"));
        FILE* log = fopen(path, "w");
        fprintf(log, "INFO  cufio-stats: Read: bw=1 util(%%)=0 n=%ld posix=1 unalign=0 r_sparse=0\n", reads);
        fclose(log);
    }
    return right;
}
Error cuFileGetVersion(int* version) { *version = 1150; return right; }
Error cuFileHandleRegister(void** handle, const Description* description) {
    if (description->type != 1 || description->handle.fd < 3) return wrong(5002);
    *handle = (void*)(long)description->handle.fd;
    return right;
}
void cuFileHandleDeregister(void* handle) { (void)handle; }
Error cuFileBufRegister(const void* memory, size_t size, int flags) {
    return memory && size && !flags ? right : wrong(5003);
}
Error cuFileBufDeregister(const void* memory) { (void)memory; return right; }
ssize_t cuFileRead(void* handle, void* memory, size_t size, off_t offset, off_t shift) {
    __sync_fetch_and_add(&reads, 1);
    if (is("error")) return -5;
    return pread((int)(long)handle, (char*)memory + shift, size, offset);
}
#ifndef OLD
Error cuFileSetStatsLevel(int level) { return level == 3 ? right : wrong(5004); }
Error cuFileStatsStart(void) { return right; }
Error cuFileGetStatsL3(Level3* level) {
    memset(level, 0, sizeof *level);
    level->count = 1;
    level->gpus[0].total = reads;
    if (is("p2p")) level->gpus[0].p2p = reads;
    if (is("nvfs")) level->gpus[0].nvfs = reads;
    if (is("posix")) level->gpus[0].posix = reads;
    return right;
}
#endif
"""


def direct_io(folder):
    probe = folder / "probe"
    probe.write_bytes(bytes(4096))
    try:
        os.close(os.open(probe, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return False
    finally:
        probe.unlink()
    return True


@pytest.fixture(name="data")
def data_folder(folder):
    if not direct_io(folder):
        pytest.skip(f"{folder} lies on a file system without direct I/O: set TIERFS_TEST_ROOT to another")
    path = folder / "data"
    (path / "b" / ".tierfs-stage").mkdir(parents=True)
    noise = random.Random(7)
    sizes = {"a": 1, "empty": 0, "b/c": 4096, "b/d": 100_001, "b/large": (16 << 20) + 5000}
    for name, size in sizes.items():
        (path / name).write_bytes(noise.randbytes(min(size, 1 << 20)) * (size // (1 << 20) + 1))
        os.truncate(path / name, size)
    (path / "b/.tierfs-stage/manifest").write_text("no data", encoding="ascii")
    (path / "link").symlink_to("a")
    return path, sum(sizes.values()), len(sizes)


@pytest.fixture(name="libraries")
def stub_libraries(folder):
    """A folder with stand-ins: libcuda.so.1 and libcufile.so.0; old/libcufile.so.0 cannot be asked for statistics."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler (packaging/dependencies --build)")
    path = folder / "lib"
    (path / "old").mkdir(parents=True)
    for source, name, more in ((CUDA, "libcuda.so.1", []), (CUFILE, "libcufile.so.0", []),
                               (CUFILE, "old/libcufile.so.0", ["-DOLD"])):
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-x", "c", "-", "-o", str(path / name), *more],
                       input=source, text=True, check=True, timeout=60 * SLOWNESS)
    return path


def gds_read(*words, expect=0, env=None):
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("CUFILE", "LD_"))}
    process = subprocess.run([sys.executable, str(TOOL), *map(str, words)], stdin=subprocess.DEVNULL, text=True,
                             capture_output=True, timeout=100 * SLOWNESS, check=False, env={**clean, **(env or {})})
    assert process.returncode == expect, process.stdout + process.stderr
    return process.stdout + process.stderr


def figures(*words, **more):
    return json.loads(gds_read(*words, "--json", **more))


def test_everything_is_read_by_direct_io(data):
    path, total, count = data
    told = figures(path, "--no-cufile", "--threads", 3, "--block", "1M")
    assert told["o_direct"]["bytes"] == total and told["o_direct"]["files"] == count
    assert told["cufile"] == {"tried": False, "reason": "--no-cufile"}
    assert f"{total:,} bytes of {count} files" in gds_read(path, "--no-cufile")


def test_without_a_gpu_it_says_so(data, libraries):
    told = gds_read(data[0] / "a", env={"LD_LIBRARY_PATH": str(libraries), "STUB_NO_GPU": "1"})
    assert "cuFile: not tried" in told and "no GPU" in told
    assert "not tried" in gds_read(data[0] / "a", "--direct", expect=1,
                                   env={"LD_LIBRARY_PATH": str(libraries), "STUB_NO_GPU": "1"})


@pytest.mark.parametrize("way, counted, direct", [("p2p", "p2pdma", True), ("nvfs", "nvidia-fs", True),
                                                  ("posix", "posix", False)])
def test_the_way_is_what_the_statistics_say(data, libraries, way, counted, direct):
    path, total, _ = data
    env = {"LD_LIBRARY_PATH": str(libraries), "STUB_PATH": way}
    told = figures(path, "--verify", env=env)["cufile"]
    assert told["tried"] and told["direct"] is direct and told["gpu"] == "Stub GPU" and told["version"] == "1.15"
    # 4 whole blocks and one of 5000 bytes of the large file, and one read of each of three small ones
    assert told["reads"] == {"reads": 8, "p2pdma": 0, "nvidia-fs": 0, "posix": 0, counted: 8}
    assert told["bytes"] == total
    text = gds_read(path, "--verify", env=env)
    assert ("The path was direct." in text) is direct and ("compatibility mode" in text) is not direct
    assert "What arrived in the GPU is what O_DIRECT read." in text
    gds_read(path, "--direct", env=env, expect=0 if direct else 1)


def test_an_old_library_is_asked_by_its_log(data, libraries):
    env = {"LD_LIBRARY_PATH": f"{libraries / 'old'}:{libraries}", "STUB_PATH": "old"}
    told = figures(data[0] / "b", env=env)["cufile"]
    assert told["reads"] == {"reads": 7, "posix": 1} and told["direct"] is False


def test_statistics_that_count_nothing_prove_nothing(data, libraries):
    env = {"LD_LIBRARY_PATH": f"{libraries / 'old'}:{libraries}"}
    told = gds_read(data[0] / "b/c", env=env)
    assert "not known" in told
    gds_read(data[0] / "b/c", "--direct", env=env, expect=1)


def test_wrong_bytes_in_the_gpu_are_noticed(data, libraries):
    env = {"LD_LIBRARY_PATH": str(libraries), "STUB_PATH": "p2p", "STUB_WRONG": "1"}
    assert "other bytes arrived" in gds_read(data[0] / "b", "--verify", env=env, expect=1)


@pytest.mark.parametrize("way, words", [("broken", "cuFileDriverOpen returned 5001"), ("error", "cuFileRead returned -5")])
def test_errors_of_the_library_are_told(data, libraries, way, words):
    told = gds_read(data[0] / "b", env={"LD_LIBRARY_PATH": str(libraries), "STUB_PATH": way}, expect=1)
    assert words in told and "Traceback" not in told


def test_the_users_configuration_is_kept_but_for_counting(data, libraries, folder):
    configuration = folder / "mine.json"
    configuration.write_text('{ // mine\n "properties": {"url": "http://x"}, "profile": {"nvtx": true}}', encoding="ascii")
    env = {"LD_LIBRARY_PATH": str(libraries), "STUB_PATH": "p2p", "CUFILE_ENV_PATH_JSON": str(configuration)}
    assert figures(data[0] / "a", env=env)["cufile"]["configuration"] == str(configuration)
    sys.path.insert(0, str(REPOSITORY / "bench"))
    from gds_read import cufile  # pylint: disable=import-outside-toplevel
    before = dict(os.environ)
    os.environ["CUFILE_ENV_PATH_JSON"] = str(configuration)
    try:
        ours, users = cufile.counting_configuration(folder)
    finally:
        os.environ.clear()
        os.environ.update(before)
    made = json.loads(ours.read_text(encoding="ascii"))
    assert users == str(configuration) and made["properties"] == {"url": "http://x"}
    assert made["profile"] == {"nvtx": True, "cufile_stats": 3} and made["logging"]["level"] == "INFO"
    configuration.write_text("{", encoding="ascii")
    assert "not tried" in gds_read(data[0] / "a", env=env)


def test_wrong_usage(folder):
    for words in ([], ["--block", "5000", folder], ["--threads", "0", folder], ["--block", "1G", folder]):
        gds_read(*words, expect=2)
    assert "no regular file" in gds_read(folder, expect=1)
    assert "No such file" in gds_read(folder / "absent", expect=1)
