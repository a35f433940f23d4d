// Fault points: named places of I/O where a test makes a system call fail, come short, take long, or be the
// last thing that the process does.
//
// Only with TIERFS_TEST_POINTS (presets dev, asan, tsan). Without it the macros are the bare call or 0 and no
// name is left in the program. With it and without TIERFS_TEST_FAULTS a hit costs one test of a flag.
//
//   ::pread(fd, data, TIERFS_FAULT_SHORT(size), offset)     inside TIERFS_FAULT_CALL("nvme.extent.read", ...)
//
// A point registers itself before main(), so that a list has the ones too that are never reached.
//
// TIERFS_TEST_FAULTS is RULE[;RULE...], a RULE is POINT:WHEN:ACTION:
//   POINT   a name; with * at its end all names that begin so
//   WHEN    N: the Nth hit; N+: from the Nth on; /N: every Nth; P%SEED: P percent of the hits, picked by
//   SEED.
//           Hits are counted for each rule and process; a child of fork goes on with the count of its parent.
//   ACTION  error=NAME or error=NUMBER: the call fails with this errno, undone
//           short: a read or write stops halfway (elsewhere nothing)
//           tear: short, and the process is killed at the thread's next point
//           delay=MS: the call comes later; kill, stop: SIGKILL, SIGSTOP of the process itself
// Of several rules that match, the first that fails the call or shortens it decides; delays add up.
//
// TIERFS_TEST_FAULT_LIST=FILE appends lines to FILE: "point NAME" for each at start, "hit NAME PID" at its
// first hit in a process, "fired NAME ACTION PID" whenever a rule applies.
#pragma once

#if TIERFS_TEST_POINTS

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace tierfs::fault {

/// One place. Lives for the whole program; thread-safe.
class Point {
  public:
    explicit Point(const char* name) noexcept;
    Point(const Point&) = delete;
    Point& operator=(const Point&) = delete;

    /// Counts a hit and does what the rules say; the errno to fail with, or 0. Keeps errno.
    int hit() { return armed().load(std::memory_order_relaxed) ? hit_armed() : 0; }
    /// hit() for a system call: sets errno when it is to fail.
    bool fails() {
        const int code = hit();
        if (code != 0) errno = code;
        return code != 0;
    }
    [[nodiscard]] const char* name() const { return name_; }
    [[nodiscard]] Point* next() const { return next_; }
    static std::vector<Point*> all();

  private:
    friend std::string configure(std::string_view rules, const std::string& list_file);
    static std::atomic<bool>& armed();
    int hit_armed();

    const char* const name_;
    Point* next_ = nullptr;
    std::atomic<bool> listed_ = false;  ///< its first hit is in the list
};

/// A name as a template argument, so that each name is one Point wherever it is used.
template <std::size_t Size>
struct Name {
    std::array<char, Size> text;
    consteval Name(const char (&literal)[Size]) : text{} { std::copy_n(literal, Size, text.begin()); }
};
template <Name name>
struct Place {
    inline static Point point{name.text.data()};
};

inline bool fails_with(int code, std::error_code& error) {
    if (code != 0) error.assign(code, std::generic_category());
    return code != 0;
}

/// Half of `size` when the last hit of this thread said "short" or "tear".
std::size_t shorten(std::size_t size);

/// Reads both variables; what is wrong with them, empty when nothing is. Once, before threads.
std::string configure_from_environment();
/// Puts other rules in place; for unit tests. Not while another thread hits points.
std::string configure(std::string_view rules, const std::string& list_file);

}  // namespace tierfs::fault

/// The errno to fail with, or 0.
#define TIERFS_FAULT(name) (::tierfs::fault::Place<name>::point.hit())
/// A call that returns -1 and sets errno when it fails.
#define TIERFS_FAULT_CALL(name, ...) (::tierfs::fault::Place<name>::point.fails() ? -1 : (__VA_ARGS__))
/// Whether it fails; then the std::error_code says with what.
#define TIERFS_FAULT_CODE(name, error) (::tierfs::fault::fails_with(TIERFS_FAULT(name), error))
/// The size argument of the call of a TIERFS_FAULT_CALL.
#define TIERFS_FAULT_SHORT(size) (::tierfs::fault::shorten(size))

#else

#define TIERFS_FAULT(name) 0
#define TIERFS_FAULT_CALL(name, ...) (__VA_ARGS__)
#define TIERFS_FAULT_CODE(name, error) false
#define TIERFS_FAULT_SHORT(size) (size)

#endif
