"""The parts of libcufile and of CUDA's driver library that are used, by ctypes: no headers are needed to run this.

Layouts are those of cufile.h and cuda.h as NVIDIA documents them (cuFile API Reference Guide, CUDA Driver API)."""

import ctypes
from ctypes import c_char, c_int, c_int64, c_size_t, c_ssize_t, c_uint, c_uint32, c_uint64, c_void_p


class Failure(Exception):
    """Something of CUDA or cuFile did not work; the text says which call and what it returned."""


class FileError(ctypes.Structure):
    """CUfileError_t."""

    _fields_ = [("err", c_int), ("cu_err", c_int)]


class Handle(ctypes.Union):
    _fields_ = [("fd", c_int), ("handle", c_void_p)]


class Description(ctypes.Structure):
    """CUfileDescr_t; type 1 is a file descriptor."""

    _fields_ = [("type", c_int), ("handle", Handle), ("fs_ops", c_void_p)]


def counters(*names):
    return [(name, c_uint64) for name in names]


class GpuStatistics(ctypes.Structure):
    """CUfilePerGpuStats_t."""

    _fields_ = [("uuid", c_char * 16)] + counters(
        "read_bytes", "read_bw_bytes_per_sec", "read_utilization", "read_duration_us", "n_total_reads", "n_p2p_reads",
        "n_nvfs_reads", "n_posix_reads", "n_unaligned_reads", "n_dr_reads", "n_sparse_regions", "n_inline_regions",
        "n_reads_err", "writes_bytes", "write_bw_bytes_per_sec", "write_utilization", "write_duration_us",
        "n_total_writes", "n_p2p_writes", "n_nvfs_writes", "n_posix_writes", "n_unaligned_writes", "n_dr_writes",
        "n_writes_err", "n_mmap", "n_mmap_ok", "n_mmap_err", "n_mmap_free", "reg_bytes")


class Statistics(ctypes.Structure):
    """CUfileStatsLevel3_t. Level 1 has 21 pairs of counters (6 + 15) and 22 single ones (10 + 12), level 2 two
    histograms of 32 each; none of those is needed here. The room at the end is for a library that counts more GPUs."""

    _fields_ = [("level1", c_uint64 * (2 * 21 + 22)), ("level2", c_uint64 * 64), ("num_gpus", c_uint32),
                ("gpus", GpuStatistics * 16), ("room", c_char * 65536)]


class Cuda:
    """One GPU's memory. Not thread-safe to make; `use` binds it to a thread."""

    def __init__(self, number):
        self.lib = ctypes.CDLL("libcuda.so.1")
        self.device, self.context = c_int(), c_void_p()
        self._check("cuInit", c_uint(0))
        self._check("cuDeviceGet", ctypes.byref(self.device), c_int(number))
        self._check("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self.use()

    def _check(self, name, *arguments):
        status = getattr(self.lib, name)(*arguments)
        if status != 0:
            raise Failure(f"{name} returned {status}")

    def use(self):
        self._check("cuCtxSetCurrent", self.context)

    def name(self):
        text = ctypes.create_string_buffer(256)
        self._check("cuDeviceGetName", text, c_int(256), self.device)
        return text.value.decode(errors="replace")

    def allocate(self, size):
        address = c_uint64()
        self._check("cuMemAlloc_v2", ctypes.byref(address), c_size_t(size))
        return address.value

    def free(self, address):
        self._check("cuMemFree_v2", c_uint64(address))

    def copy_out(self, buffer, address, size):
        view = (c_char * size).from_buffer(buffer)
        self._check("cuMemcpyDtoH_v2", view, c_uint64(address), c_size_t(size))
        del view


class CuFile:
    """libcufile, its driver open until close()."""

    def __init__(self, library):
        self.lib = ctypes.CDLL(library)
        for name in ("cuFileDriverOpen", "cuFileDriverClose", "cuFileHandleRegister", "cuFileBufRegister",
                     "cuFileBufDeregister"):
            getattr(self.lib, name).restype = FileError
        self.lib.cuFileHandleDeregister.restype = None
        self.lib.cuFileHandleDeregister.argtypes = [c_void_p]
        self.lib.cuFileRead.restype = c_ssize_t
        self.lib.cuFileRead.argtypes = [c_void_p, c_void_p, c_size_t, c_int64, c_int64]
        self.lib.cuFileBufRegister.argtypes = [c_void_p, c_size_t, c_int]
        self.lib.cuFileBufDeregister.argtypes = [c_void_p]
        self._check("cuFileDriverOpen", self.lib.cuFileDriverOpen())

    @staticmethod
    def _check(name, error):
        if error.err != 0:
            raise Failure(f"{name} returned {error.err} (CUDA: {error.cu_err})")

    def version(self):
        """"1.13", or None: the call came with CUDA 12.6."""
        try:
            call = self.lib.cuFileGetVersion
        except AttributeError:
            return None
        call.restype = FileError
        number = c_int()
        self._check("cuFileGetVersion", call(ctypes.byref(number)))
        return f"{number.value // 1000}.{number.value % 1000 // 10}"

    def count(self):
        """Turns the library's statistics on; False when it is too old to be asked for them."""
        try:
            calls = [self.lib.cuFileSetStatsLevel, self.lib.cuFileStatsStart, self.lib.cuFileGetStatsL3]
        except AttributeError:
            return False
        for call in calls:
            call.restype = FileError
        self._check("cuFileSetStatsLevel", calls[0](c_int(3)))
        self._check("cuFileStatsStart", calls[1]())
        return True

    def statistics(self):
        counted = Statistics()
        self._check("cuFileGetStatsL3", self.lib.cuFileGetStatsL3(ctypes.byref(counted)))
        gpus = counted.gpus[:min(counted.num_gpus, 16)]
        return {"reads": sum(gpu.n_total_reads for gpu in gpus), "p2pdma": sum(gpu.n_p2p_reads for gpu in gpus),
                "nvidia-fs": sum(gpu.n_nvfs_reads for gpu in gpus),
                "posix": sum(gpu.n_posix_reads for gpu in gpus)}

    def register_file(self, fd):
        handle, description = c_void_p(), Description(type=1, fs_ops=None)
        description.handle.fd = fd
        self._check("cuFileHandleRegister",
                    self.lib.cuFileHandleRegister(ctypes.byref(handle), ctypes.byref(description)))
        return handle

    def forget_file(self, handle):
        self.lib.cuFileHandleDeregister(handle)

    def register_memory(self, address, size):
        self._check("cuFileBufRegister", self.lib.cuFileBufRegister(address, size, 0))

    def forget_memory(self, address):
        self._check("cuFileBufDeregister", self.lib.cuFileBufDeregister(address))

    def read(self, handle, address, size, offset):
        got = self.lib.cuFileRead(handle, address, size, offset, 0)
        if got < 0:
            raise Failure(f"cuFileRead returned {got}")
        return got

    def close(self):
        self._check("cuFileDriverClose", self.lib.cuFileDriverClose())


__all__ = ["Cuda", "CuFile", "Failure"]
