"""The readers that are timed. Run as a program: readers.py KIND ARGUMENTS; prints bytes and seconds of reading.

  files ROOT LIST READERS     files of LIST, whole, by processes that take turns
  streams FILE BYTES COUNT    COUNT processes read their part of the first BYTES in order, by reads of 1 MiB
  mmap FILE BYTES             the first BYTES through a mapping, in order
  preads FILE COUNT SIZE      COUNT reads of SIZE bytes at random places, by 4 processes
  faults FILE COUNT           COUNT reads of 4 KiB at random places through a mapping
  names FOLDER                the names of all files below it, directory by directory in order; counts them instead of bytes
  lists URL PREFIX...         the same by LIST requests of a bucket, one page after another on one connection
"""

import mmap
import http.client
import multiprocessing
import os
import random
import re
import sys
import time
import urllib.parse

PAGE = 4096
READERS = 4


def read_files(root, names):
    total = 0
    for name in names:
        handle = os.open(os.path.join(root, name), os.O_RDONLY)
        while piece := os.read(handle, 1 << 20):
            total += len(piece)
        os.close(handle)
    return total


def read_part(path, begin, end):
    handle, total, buffer = os.open(path, os.O_RDONLY), 0, bytearray(1 << 20)
    try:
        while begin + total < end:
            count = os.preadv(handle, [memoryview(buffer)[:min(len(buffer), end - begin - total)]], begin + total)
            if count == 0:
                break
            total += count
    finally:
        os.close(handle)
    return total


def read_places(path, places, size):
    handle = os.open(path, os.O_RDONLY)
    # So that the kernel reads what is asked for and nothing more.
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_RANDOM)
    try:
        return sum(len(os.pread(handle, size, place)) for place in places)
    finally:
        os.close(handle)


def walk_names(root):
    found = 0
    for _, folders, files in os.walk(root):
        folders.sort()
        found += len(files)
    return found


def list_names(url, prefixes):
    parts, found = urllib.parse.urlsplit(url), 0
    connection = http.client.HTTPConnection(parts.netloc)
    for prefix in prefixes:
        token = ""
        while token is not None:
            query = {"list-type": "2", "delimiter": "/", "prefix": prefix, "encoding-type": "url"}
            connection.request("GET", f"{parts.path}?{urllib.parse.urlencode({**query, 'continuation-token': token} if token else query)}")
            body = connection.getresponse().read().decode()
            found += body.count("<Contents>")
            more = re.search("<NextContinuationToken>([^<]*)<", body)
            token = more[1] if more else None
    connection.close()
    return found


def in_processes(work, parts):
    """One process for each of `parts`; the sum of what they return, and the seconds without starting the processes."""
    with multiprocessing.Pool(len(parts)) as pool:
        pool.map(abs, range(len(parts)), 1)
        began = time.monotonic()
        return sum(pool.starmap(work, parts, 1)), time.monotonic() - began


def through_mapping(path, size, places):
    """Touches a page at each of `places`; returns bytes touched."""
    handle = os.open(path, os.O_RDONLY)
    with mmap.mmap(handle, size, prot=mmap.PROT_READ) as area:
        total = 0
        for place in places:
            total += len(area[place:place + PAGE])
    os.close(handle)
    return total


def mapping_in_order(path, size):
    handle, total = os.open(path, os.O_RDONLY), 0
    with mmap.mmap(handle, size, prot=mmap.PROT_READ) as area:
        for place in range(0, size, 1 << 20):
            total += len(area[place:place + (1 << 20)])
    os.close(handle)
    return total


def timed(work, *arguments):
    began = time.monotonic()
    return work(*arguments), time.monotonic() - began


def main(kind, *rest):
    if kind == "files":
        with open(rest[1], encoding="utf-8") as file:
            names = file.read().splitlines()
        count = int(rest[2])
        total, seconds = in_processes(read_files, [(rest[0], names[i::count]) for i in range(count)])
    elif kind == "streams":
        size, count = int(rest[1]), int(rest[2])
        total, seconds = in_processes(read_part, [(rest[0], i * size // count, (i + 1) * size // count) for i in range(count)])
    elif kind == "mmap":
        total, seconds = timed(mapping_in_order, rest[0], int(rest[1]))
    elif kind == "preads":
        count, size = int(rest[1]), int(rest[2])
        blocks = os.stat(rest[0]).st_size // size
        places = [size * block for block in random.Random(1).sample(range(blocks), min(count, blocks))]
        total, seconds = in_processes(read_places, [(rest[0], places[i::READERS], size) for i in range(READERS)])
    elif kind == "faults":
        size = os.stat(rest[0]).st_size
        places = random.Random(2).sample(range(0, size - PAGE, PAGE), int(rest[1]))
        total, seconds = timed(through_mapping, rest[0], size, places)
    elif kind == "names":
        total, seconds = timed(walk_names, rest[0])
    elif kind == "lists":
        total, seconds = timed(list_names, rest[0], rest[1:])
    else:
        sys.exit(f"{kind}: unknown; {__doc__}")
    print(total, seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
