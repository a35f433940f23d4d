"""cuFile from outside: where its library is, the configuration that makes it count, what it says in its log, and the
process that reads."""

import ctypes
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARY = "libcufile.so.0"
NVIDIA_FS = Path("/proc/driver/nvidia-fs/stats")


class Unavailable(Exception):
    """cuFile cannot be tried here; the text says what is missing."""


def find_library(given):
    """The path or name by which libcufile is loaded. Raises Unavailable."""
    places = [given] if given else [LIBRARY]
    if not given:
        for packages in sys.path:
            places += sorted(glob.glob(f"{packages}/nvidia/*/lib/{LIBRARY}"))
        places += sorted(glob.glob(f"/usr/local/cuda*/lib64/{LIBRARY}"), reverse=True)
    for place in places:
        try:
            ctypes.CDLL(place)
            return place
        except OSError:
            continue
    raise Unavailable(f"{given or LIBRARY} cannot be loaded: install CUDA's libcufile, or name it by --libcufile")


def require_driver():
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise Unavailable("no NVIDIA driver on this machine (there is no libcuda.so.1)") from None
    count = ctypes.c_int()
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        raise Unavailable("NVIDIA's driver is installed, but this machine has no GPU that it can use")


def without_comments(text):
    """JSON with // comments, as NVIDIA's own file has them, without them; text in quotes stays."""
    return re.sub(r'("(?:[^"\\]|\\.)*")|//[^\n]*', lambda match: match.group(1) or "", text)


def counting_configuration(folder):
    """The user's configuration with statistics and a log in the folder; says too whether there was one."""
    path = os.environ.get("CUFILE_ENV_PATH_JSON") or "/etc/cufile.json"
    try:
        settings, found = json.loads(without_comments(Path(path).read_text(encoding="utf-8"))), True
        if not isinstance(settings, dict):
            raise Unavailable(f"{path}: not a JSON object")
    except FileNotFoundError:
        settings, found = {}, False
    except ValueError as error:
        raise Unavailable(f"{path}: {error}") from None
    settings["profile"] = {**settings.get("profile", {}), "cufile_stats": 3}
    settings["logging"] = {**settings.get("logging", {}), "level": "INFO", "dir": str(folder)}
    ours = Path(folder) / "cufile.json"
    ours.write_text(json.dumps(settings, indent=4), encoding="utf-8")
    return ours, path if found else None


def reads_in_log(folder):
    """The counts of the last line like "Read: ... n=12 posix=0 ..." that libcufile logs at its end, or None."""
    found = None
    for path in sorted(Path(folder).glob("cufile*.log")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            match = re.search(r"\bRead:.*?\bn=(\d+)\b.*?\bposix=(\d+)\b", line)
            if match:
                found = {"reads": int(match.group(1)), "posix": int(match.group(2))}
    return found


def nvidia_fs_reads():
    """Reads that the module nvidia-fs has counted, or None where it is not loaded."""
    try:
        match = re.search(r"^Reads\s*:\s*n=(\d+)", NVIDIA_FS.read_text(encoding="ascii", errors="replace"), re.M)
    except OSError:
        return None
    return int(match.group(1)) if match else None


def path_of(reads):
    """In words, and whether every read was direct (None: not known)."""
    if not reads or not reads["reads"]:
        return "not known: the library counted nothing", None
    direct = reads["reads"] - reads["posix"]
    if "p2pdma" not in reads:
        return (f"{direct} of {reads['reads']} reads direct, {reads['posix']} through the processor's memory",
                reads["posix"] == 0)
    known = reads["p2pdma"] + reads["nvidia-fs"] + reads["posix"]
    text = (f"{reads['p2pdma']} reads by PCI P2PDMA, {reads['nvidia-fs']} by nvidia-fs, {reads['posix']} through the "
            "processor's memory")
    return text, reads["posix"] == 0 and known > 0


def read_all(files, options):
    """Reads all files through cuFile in a process of its own; its answer. Raises Unavailable, OSError."""
    require_driver()
    library = find_library(options.libcufile)
    with tempfile.TemporaryDirectory(prefix="gds-read-") as folder:
        configuration, users = counting_configuration(folder)
        before, (out, into) = nvidia_fs_reads(), os.pipe()
        request = {"files": [[file.path, file.size] for file in files], "gpu": options.gpu, "block": options.block,
                   "threads": options.threads, "verify": options.verify, "library": library, "answer": into}
        # Loaded with the process, the library ends in order and writes its statistics.
        environment = {**os.environ, "CUFILE_ENV_PATH_JSON": str(configuration)}
        environment["LD_PRELOAD"] = ":".join(part for part in (os.environ.get("LD_PRELOAD"), library) if part)
        with os.fdopen(out, encoding="utf-8") as stream:
            with subprocess.Popen([sys.executable, "-m", "gds_read.child"], stdin=subprocess.PIPE, pass_fds=[into],
                                  env=environment, cwd=Path(__file__).parents[1]) as process:
                os.close(into)
                process.stdin.write(json.dumps(request).encode())
                process.stdin.close()
                text = stream.read()
        if not text:
            raise OSError(f"the process that reads through cuFile ended with {process.returncode} and no answer")
        answer = json.loads(text)
        if "error" in answer:
            raise OSError(answer["error"])
        answer["reads"] = answer["reads"] or reads_in_log(folder)
    after = nvidia_fs_reads()
    answer.update(library=library, configuration=users,
                  nvidia_fs_reads=after - before if before is not None and after is not None else None)
    return answer
