// Processes that do one thing at the same time. Processes and not threads: data loaders are processes, and
// each then has a file table and an address space of its own, as with them.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs::iobench {

/// Nanoseconds of CLOCK_MONOTONIC, the same clock in every process of the machine.
std::uint64_t now_ns();

/// An array that children made by fork share with their parent; zeroed. T has no pointers and needs no
/// destructor.
template <typename T>
class Shared {
  public:
    explicit Shared(std::size_t count) : count_(count), bytes_(sizeof(T) * (count + 1)) {
        void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        data_ = static_cast<T*>(memory);
    }
    ~Shared() { munmap(data_, bytes_); }
    Shared(const Shared&) = delete;
    Shared& operator=(const Shared&) = delete;
    T& operator[](std::size_t i) { return data_[i]; }
    T* begin() { return data_; }
    T* end() { return data_ + count_; }

  private:
    std::size_t count_, bytes_;
    T* data_ = nullptr;
};

/// N forked processes that begin together when told. Not thread-safe; made while the process has one thread.
class Workers {
  public:
    /// Forks; each child waits for `release` and then ends with what `work(index)` returns.
    Workers(unsigned count, const std::function<Result<void>(unsigned)>& work);

    /// Kills and reaps what still runs.
    ~Workers();
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    void release();

    /// The first error of a child that has ended by now, without waiting.
    Result<void> check();

    /// Waits for all; the first error, after which the others are killed.
    Result<void> wait();

  private:
    struct Report {
        int code;
        char text[500];
    };
    [[noreturn]] void run_child(unsigned index, const std::function<Result<void>(unsigned)>& work);
    Result<void> ended(unsigned index, int status);
    Result<void> reap(bool block);

    int gate_[2] = {-1, -1};       // children read it; end of file when the parent closes its end
    std::vector<pid_t> children_;  // -1: reaped
    Shared<Report> reports_;
};

}  // namespace tierfs::iobench
