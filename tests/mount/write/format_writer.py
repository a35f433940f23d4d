"""One commit into a table as a program makes it that knows nothing of tierfs: format_writer.py KIND PATH NUMBER. NUMBER -1: the
table is made; -2: prints the numbers that it has."""

import os
import sys

ROWS = 1000


def delta(path, number):
    import deltalake
    import pyarrow
    if number == -2:
        column = deltalake.DeltaTable(path).to_pyarrow_dataset().to_table().column("number").to_pylist()
        return {one: column.count(one) for one in set(column)}
    rows = pyarrow.table({"number": pyarrow.array([] if number < 0 else [number] * ROWS, pyarrow.int64())})
    properties = deltalake.CommitProperties(max_commit_retries=100)
    deltalake.write_deltalake(path, rows, mode="error" if number < 0 else "append", commit_properties=properties)
    return None


def lance(path, number):
    import lance as library
    import pyarrow
    if number == -2:
        column = library.dataset(path).to_table().column("number").to_pylist()
        return {one: column.count(one) for one in set(column)}
    rows = pyarrow.table({"number": pyarrow.array([] if number < 0 else [number] * ROWS, pyarrow.int64())})
    library.write_dataset(rows, path, mode="create" if number < 0 else "append")
    return None


def zarr(path, number):
    import numpy
    import zarr as library
    if number == -2:
        group = library.open_group(path, mode="r")
        shared = group["shared"][:]
        return {n: int((shared[n * ROWS:(n + 1) * ROWS] == n).sum()) for n in range(len(shared) // ROWS)
                if f"own{n}/inner" in group and (group[f"own{n}/inner"][:] == n).all() and (shared[n * ROWS] == n)}
    if number < 0:
        group = library.create_group(path)
        group.create_array("shared", shape=(40 * ROWS,), chunks=(ROWS,), dtype="i8", fill_value=-1)
        return None
    group = library.open_group(path, mode="r+")
    group.create_group(f"own{number}").create_array("inner", data=numpy.full(ROWS, number, "i8"))
    group["shared"][number * ROWS:(number + 1) * ROWS] = number
    return None


KINDS = {"delta": delta, "lance": lance, "zarr": zarr}

if __name__ == "__main__":
    said = KINDS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
    if said is not None:
        print(" ".join(f"{number}:{count}" for number, count in sorted(said.items())), flush=True)
    os._exit(0)  # the libraries' threads may not end in order
