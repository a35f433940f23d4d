"""Small files, shuffled: from the kernel's page cache, from NVMe extents, from the RAM tier."""

from lib import host, report

from .bench import messages, messages_since, nothing_fetched, origin_bytes, warm

MIB = 1 << 20
PROCESSES = {1: 0.75, 4: 0.7}  # share of XFS when all is hot


def trees_of(bench):
    return (bench.dataset.small, bench.dataset.medium)


def list_of(bench, tree):
    """The names with their sizes, so that iobench asks for nothing before it reads."""
    path = bench.folder / f"list-{tree.name}"
    path.write_text("".join(f"{name}\t{size}\n" for name, size in bench.dataset.names(tree)))
    return path


class Reader:
    """Reads all files of one tree in another order each time; files a second. Keeps the messages that this cost the mount."""

    def __init__(self, bench, mount, tree, deadline, processes, drop):
        self.bench, self.mount, self.tree, self.deadline = bench, mount, tree, deadline
        self.words = ["--suite", "smallfiles", "--access", "shuffled", "--list", list_of(bench, tree),
                      "--processes", processes, "--drop-caches", drop]
        self.sent = []

    def __call__(self, folder):
        before = messages(self.mount)
        found = self.bench.iobench(self.deadline, "--path", folder / self.tree.name, *self.words)["files_per_s"]
        if folder == self.mount.mountpoint:
            self.sent.append(messages_since(self.mount, before))
        return found


def compare(bench, mount, step, tree, deadline, processes, drop, share, most):
    """The row of the speed, and that of the messages for each file where there is a bar for these."""
    reader = Reader(bench, mount, tree, deadline, processes, drop)
    name = f"{tree.size >> 10} KiB, {processes} {'process' if processes == 1 else 'processes'}, " + \
        ("page cache dropped" if drop == "page" else "hot")
    yield bench.beside(step, name, "files/s", share, reader, bench.dataset.folder, mount.mountpoint)
    if most is not None:
        worst = max(reader.sent, key=lambda sent: sum(sent.values()))
        row = report.at_most(step, f"{name}: messages a file", sum(worst.values()) / tree.files, "", most + 0.01)
        row.other_name = ", ".join(f"{count} {kind}" for kind, count in worst.items())
        yield row


def both_read(bench, mount, tree, deadline):
    """Names, inodes and pages of both sides are with the kernel afterwards, and all data is in the mount's tiers."""
    warm(bench, mount, [tree.name], deadline)
    reader = Reader(bench, mount, tree, deadline, 4, "none")
    for folder in (bench.dataset.folder, mount.mountpoint):
        reader(folder)


def step_nvme(bench, deadline):
    with bench.ours(deadline, {"profile": "small", "memory.limit": 512 * MIB, "ram.limit": 0}) as mount:
        for tree in trees_of(bench):
            both_read(bench, mount, tree, deadline)
            fetched = origin_bytes(mount)
            for processes, share in PROCESSES.items():
                yield from compare(bench, mount, "small", tree, deadline, processes, "none", share, 0)
            yield from compare(bench, mount, "small", tree, deadline, 4, "page", 0.8, 1)
            yield nothing_fetched("small", mount, fetched, tree.name)
            host.drop_caches(1)


def step_ram(bench, deadline):
    """memory.limit leaves the RAM tier more than the files have."""
    limit = 2 * (bench.dataset.small.bytes + bench.dataset.medium.bytes) + 512 * MIB
    with bench.ours(deadline, {"profile": "small", "memory.limit": limit}, nvme=False) as mount:
        for tree in trees_of(bench):
            both_read(bench, mount, tree, deadline)
            fetched = origin_bytes(mount)
            yield from compare(bench, mount, "small-ram", tree, deadline, 4, "page", 2, None)
            yield nothing_fetched("small-ram", mount, fetched, tree.name)
