"""What is measured, in which order, and about how long it takes.

The steps of a group share one mount, made anew for each round with an empty cache and after the page cache, dentries and
inodes were dropped. `cold` is the first reading of the files there. `warm` reads the same files again in another order.
`warm-disk` does that once more after the page cache was dropped: what the mount keeps on its disk has to come from the disk.
"""

import dataclasses
import math

from . import fio, reference

SAMPLE = 600  # files of each size that every mount reads
SAMPLE_OF_ONE = 200  # of these by one process alone, which waits for each: five rounds have to fit in an hour
SEQUENTIAL_BYTES = 1 << 30
RANDOM_READS = 256
METADATA_NAMES = 150  # that are opened, and as many that do not exist
EPOCH_COMPUTE_MS = 10
EPOCH_BATCH = 32
MOUNT_SECONDS = {"native": 0.3, "tierfs": 1.5, "s3fs": 1.5, "rclone": 1.5}  # mounting, unmounting, counting


@dataclasses.dataclass(frozen=True)
class Step:
    case: str
    group: str
    kind: str  # find, or a suite of iobench
    headline: str  # the metric that summary, reference and estimate go by
    work: str = ""  # files, bytes or reads: what the estimate divides by the rate
    sample: str = ""  # the list of files that iobench gets, and whose folder it reads
    processes: int = 1
    drop: str = "none"
    order: int = 0  # of the seeds of a group: another one, another order


def _files(name, sample, processes):
    return [Step(f"{name}-{state}", "files", "smallfiles", "files_per_s", "files", sample, processes, drop, order)
            for order, (state, drop) in enumerate((("cold", "none"), ("warm", "none"), ("warm-disk", "page")))]


STEPS = [
    Step("find-cold", "files", "find", "find_s"),
    Step("find-warm", "files", "find", "find_s"),
    Step("metadata", "files", "metadata", "", processes=4),  # its cases are some here: metadata-open and so on
    *_files("16k-1p", "small-1", 1),
    *_files("16k-4p", "small-4", 4),
    *_files("110k-4p", "medium-4", 4),
    Step("epoch-cold", "files", "epoch", "samples_per_s", "samples", "medium-epoch", 4, order=3),
    Step("epoch-warm-disk", "files", "epoch", "samples_per_s", "samples", "medium-epoch", 4, "page", 4),
    Step("seq-cold", "large", "sequential", "mb_per_s", "bytes"),
    Step("seq-warm", "large", "sequential", "mb_per_s", "bytes"),
    Step("seq-warm-disk", "large", "sequential", "mb_per_s", "bytes", drop="page"),
    Step("random-cold", "random", "random", "reads_per_s", "reads", order=5),
]
GROUPS = ["files", "large", "random", "fio"]
GROUPS_HELP = """groups of steps, each on a fresh mount:
  files    mount; find with all sizes, twice; names and attributes (metadata); 16 KiB files by 1 and by 4 processes,
           110 KiB by 4; an emulated trainer on 110 KiB files: 4 workers, batches of 32, 10 ms of computing for each
  large    the large file in order, in reads of 1 MiB (its first GiB)
  random   64 KiB reads at random places of the large file by one process
  fio      the jobs of bench/fio that only read, in the first round alone (needs fio)

"""


# The result files, and the sections of the page: what has the same metrics.
PARTS = ["names", "smallfiles", "epoch", "large-file", "fio", "costs"]
PART_OF_KIND = {"find": "names", "metadata": "names", "smallfiles": "smallfiles", "epoch": "epoch", "sequential": "large-file",
                "random": "large-file"}


def part_of(case):
    if case.startswith("fio-"):
        return "fio"
    if case == "mount" or case.startswith("metadata"):
        return "names"
    return next((PART_OF_KIND[step.kind] for step in STEPS if step.case == case), "costs")


@dataclasses.dataclass(frozen=True)
class Size:
    """How much there is to do."""

    objects: int
    scale: float  # of the dataset
    samples: dict  # name of the list: number of files
    sequential: int
    reads: int


def size_of(dataset, sample=SAMPLE, sequential=SEQUENTIAL_BYTES, reads=RANDOM_READS):
    """Two disjoint samples of each size: no file is read cold twice on one mount."""
    small, medium = min(sample, dataset.small.files // 2), min(sample, dataset.medium.files // 2)
    return Size(dataset.objects, dataset.scale,
                {"small-1": min(small, SAMPLE_OF_ONE), "small-4": small, "medium-4": medium, "medium-epoch": medium},
                min(sequential, dataset.large_bytes), reads)


def _find_seconds(step, peer, latency_ms, size):
    seconds = reference.rate(peer, latency_ms, step.case, 0.5) * size.objects / 22001
    return max(seconds, 0.1)


def seconds(step, peer, latency_ms, size):
    """About how long it takes, on a machine like the reference's."""
    if step.kind == "find":
        return _find_seconds(step, peer, latency_ms, size)
    if step.kind == "metadata":  # s3fs asks for each name it opens, and several times for one that is not there
        return 0.3 + size.objects / 10000 + (METADATA_NAMES * 0.06 * latency_ms / 20 if peer == "s3fs" else 0)
    rate = reference.rate(peer, latency_ms, step.case, 100)
    if step.work == "bytes":
        return 0.3 + size.sequential / 1e6 / rate
    if step.work == "reads":
        return 0.3 + size.reads / rate
    if step.work == "samples":  # what the reading takes, or the computing
        rate = reference.rate(peer, latency_ms, f"110k-4p-{step.case.partition('-')[2]}", 100)
        batches = math.ceil(size.samples[step.sample] / EPOCH_BATCH)
        return 0.5 + max(size.samples[step.sample] / rate, batches * EPOCH_COMPUTE_MS / 1e3)
    return 0.3 + size.samples[step.sample] / rate


def group_seconds(group, peer, latency_ms, size):
    mounting = MOUNT_SECONDS.get(peer, 2.0)
    if group == "fio":
        return mounting + fio.seconds()
    return mounting + sum(seconds(step, peer, latency_ms, size) for step in STEPS if step.group == group)
