"""direct_reader.py ROOT LIST SIZE: reads the first SIZE bytes of the files of LIST, one after another, with O_DIRECT: the
kernel's page cache would answer repeats."""

import mmap
import os
import sys


def main(root, names, size):
    buffer = mmap.mmap(-1, size)
    with open(names, encoding="utf-8") as file:
        for line in file:
            path = os.path.join(root, line.rstrip("\n"))
            handle = os.open(path, os.O_RDONLY | os.O_DIRECT)
            if os.preadv(handle, [buffer], 0) != size:
                sys.exit(f"{path}: came short")
            os.close(handle)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
