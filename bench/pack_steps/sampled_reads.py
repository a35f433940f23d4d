#!/usr/bin/python3
"""Reads files once, by 4 processes that are given batches of one order, as a DataLoader does it; prints the bytes.
sampled_reads.py ROOT LIST SIZE random|chunks|ahead CHUNK   LIST: names in the order of the pack, each of SIZE bytes"""

import multiprocessing
import os
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "config/examples"))
from chunk_sampler import ChunkSampler, FetchAhead  # noqa: E402

READERS, BATCH, BATCHES_AHEAD = 4, 32, 8


def work(paths, batches, results):
    total = 0
    while (batch := batches.get()) is not None:
        for index in batch:
            handle = os.open(paths[index], os.O_RDONLY)
            while piece := os.read(handle, 1 << 20):
                total += len(piece)
            os.close(handle)
    results.put(total)


def main(root, names, size, order, chunk):
    with open(names, encoding="utf-8") as file:
        paths = [os.path.join(root, name) for name in file.read().splitlines()]
    batches, results = multiprocessing.Queue(BATCHES_AHEAD), multiprocessing.SimpleQueue()
    readers = [multiprocessing.Process(target=work, args=(paths, batches, results)) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    if order == "random":
        indices = list(range(len(paths)))
        random.Random(1).shuffle(indices)
    else:
        ahead = FetchAhead(paths) if order == "ahead" else None
        indices = ChunkSampler([int(size)] * len(paths), seed=1, chunk=int(chunk), ahead=ahead)
    batch = []
    for index in indices:
        batch.append(index)
        if len(batch) == BATCH:
            batches.put(batch)
            batch = []
    batches.put(batch)
    for _ in readers:
        batches.put(None)
    print(sum(results.get() for _ in readers))
    for reader in readers:
        reader.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
