"""Which files are read, and in what pieces."""

import os
import stat

PIECE = 16 << 20  # bytes that one thread reads at a stretch, as the chunks of tierfs-stage; a multiple of every block
OWN_FOLDER = ".tierfs-stage"  # books of tierfs-stage, not data


class File:
    """path, as text that keeps odd bytes; size in bytes."""

    def __init__(self, path, size):
        self.path, self.size = path, size


def find(paths):
    """Regular files below the paths, or the paths themselves, in the order of their names. Raises OSError."""
    found = []
    for path in paths:
        if stat.S_ISREG(os.stat(path).st_mode):
            found.append(File(path, os.stat(path).st_size))
            continue
        for folder, folders, names in os.walk(path, onerror=_raise):
            folders[:] = sorted(name for name in folders if name != OWN_FOLDER)
            for name in sorted(names):
                facts = os.lstat(os.path.join(folder, name))
                if stat.S_ISREG(facts.st_mode):
                    found.append(File(os.path.join(folder, name), facts.st_size))
    return found


def _raise(error):
    raise error


def pieces(files):
    """(number of the file, offset, bytes) for all bytes of all files."""
    for number, file in enumerate(files):
        for offset in range(0, file.size, PIECE):
            yield number, offset, min(PIECE, file.size - offset)
