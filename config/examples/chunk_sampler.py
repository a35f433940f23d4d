#!/usr/bin/python3
"""A shuffled order that keeps to a few chunks of a pack at a time: for training on a mount with pack=DEST whose cache is
smaller than the dataset. Take this file into your project; it needs nothing but Python. bench/pack measures what it gains.

    files = chunk_sampler.list_files("/mnt/data/train")
    ahead = chunk_sampler.FetchAhead([path for path, _ in files])
    sampler = chunk_sampler.ChunkSampler([size for _, size in files], seed=1, ahead=ahead)
    loader = torch.utils.data.DataLoader(MyDataset(files), sampler=sampler, num_workers=8, batch_size=64)
    for epoch in range(90):
        sampler.set_epoch(epoch)
        for batch in loader: ...
"""

import os
import queue
import random
import threading


def list_files(root):
    """[(path, bytes)] below root in the order of a pack. (With `tierfs pack --order` take that list instead.)"""
    found = []
    for folder, _, names in os.walk(root):
        found += [(os.path.join(folder, name), os.lstat(os.path.join(folder, name)).st_size) for name in names]
    return sorted(found, key=lambda one: [os.fsencode(part) for part in os.path.split(one[0])])


class ChunkSampler:
    """Indices of files, each once an epoch. Runs of neighbours of about `chunk` bytes come in random order; files are drawn at
    random from `window` of them at a time, which takes chunk * window bytes of page cache. `rank` of `world` processes gets
    chunks of its own. `ahead` is called with the indices of each chunk, one chunk before its files may be drawn."""

    def __init__(self, sizes, seed=0, chunk=32 << 20, window=4, rank=0, world=1, ahead=None):
        self.seed, self.epoch, self.window, self.ahead, self.chunks = seed, 0, window, ahead, []
        filled, self.rank, self.world = chunk, rank, world
        for index, size in enumerate(sizes):
            if filled >= chunk:
                self.chunks.append([])
                filled = 0
            self.chunks[-1].append(index)
            filled += size

    def set_epoch(self, epoch):
        """Each epoch has an order of its own, which is the same in all processes."""
        self.epoch = epoch

    def mine(self):
        """The chunks of this process, in the order of this epoch."""
        chunks = list(self.chunks)
        random.Random(f"{self.seed} {self.epoch}").shuffle(chunks)
        return chunks[self.rank::self.world]

    def __len__(self):
        return sum(map(len, self.mine()))

    def __iter__(self):
        chance, pool = random.Random(f"{self.seed} {self.epoch} {self.rank}"), []
        chunks = self.mine()
        for number, chunk in enumerate(chunks):
            for coming in chunks[number + 1:number + 2] if number else chunks[:2]:
                if self.ahead:
                    self.ahead(coming)
            pool += chunk
            chance.shuffle(pool)
            # As many as came in, once the window is full; at the end, all.
            leave = 0 if number + 1 == len(chunks) else len(pool) * (self.window - 1) // self.window
            while len(pool) > leave and (number + 1 >= self.window or leave == 0):
                yield pool.pop()


class FetchAhead:
    """Asks for the files of a chunk in their order, on a thread of its own: tierfs fetches neighbours together, and the kernel
    keeps them for the workers."""

    def __init__(self, paths):
        self.paths, self.chunks = paths, queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def __call__(self, chunk):
        self.chunks.put(chunk)

    def _run(self):
        while True:
            for index in sorted(self.chunks.get()):
                handle = os.open(self.paths[index], os.O_RDONLY)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_WILLNEED)
                os.close(handle)
