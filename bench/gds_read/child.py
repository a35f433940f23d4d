"""The process that reads through cuFile: apart, since libcufile reads its configuration when it is loaded, and since some
versions end in a crash when they were loaded late. Takes a request as JSON on standard input, answers with JSON."""

import json
import mmap
import os
import sys
import threading
import time
import zlib

from .abi import CuFile, Cuda, Failure
from .direct import PAGE, Work
from .tree import File


def read_piece(cuda, cufile, file, piece, memory, sums):
    _, offset, length = piece
    address, block, host = memory
    fd = os.open(file.path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    try:
        handle = cufile.register_file(fd)
        try:
            begin, end, crc = offset, offset + length, 0
            while offset < end:
                wanted = min(block, -(-(end - offset) // PAGE) * PAGE)
                got = min(cufile.read(handle, address, wanted, offset), end - offset)
                if got < min(wanted, end - offset):
                    raise Failure(f"cuFileRead ended at {offset + got} of {file.size} bytes")
                if sums is not None:
                    cuda.copy_out(host, address, got)
                    crc = zlib.crc32(memoryview(host)[:got], crc)
                offset += got
            if sums is not None:
                sums.append([file.path, begin, crc])
        finally:
            cufile.forget_file(handle)
    finally:
        os.close(fd)


def worker(cuda, cufile, files, work, block, sums):
    try:
        cuda.use()
        address = cuda.allocate(block)
        cufile.register_memory(address, block)
        with mmap.mmap(-1, block) as host:
            while (piece := work.next()) is not None:
                file = files[piece[0]]
                try:
                    read_piece(cuda, cufile, file, piece, (address, block, host), sums)
                except (OSError, Failure) as error:
                    work.failed(f"{file.path}: {error}")
        cufile.forget_memory(address)
        cuda.free(address)
    except Failure as error:
        work.failed(str(error))


def measure(request):
    files = [File(path, size) for path, size in request["files"]]
    cuda, work, sums = Cuda(request["gpu"]), Work(files), [] if request["verify"] else None
    cufile = CuFile(request["library"])
    counting = cufile.count()
    crew = [threading.Thread(target=worker, args=(cuda, cufile, files, work, request["block"], sums), daemon=True)
            for _ in range(request["threads"])]
    started = time.monotonic()
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    seconds = time.monotonic() - started
    if work.errors:
        raise Failure(work.errors[0])
    answer = {"gpu": cuda.name(), "version": cufile.version(), "seconds": seconds,
              "reads": cufile.statistics() if counting else None, "sums": sums}
    cufile.close()  # writes the statistics to its log
    return answer


def main():
    request = json.load(sys.stdin)
    try:
        answer = measure(request)
    except (Failure, OSError, AttributeError) as error:
        answer = {"error": str(error)}
    with os.fdopen(int(request["answer"]), "w", encoding="utf-8") as stream:
        json.dump(answer, stream)
    os._exit(0)  # libcufile's own ending is what crashes


if __name__ == "__main__":
    main()
