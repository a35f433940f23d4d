// The cost of the processes that serve a mount.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/iobench/run/result_file.hpp"
#include "config/base/result.hpp"

namespace tierfs::iobench {

/// The processes of one target's daemon. Reads /proc; not thread-safe.
class Daemon {
  public:
    /// ESRCH when one of `pids`, at least one, does not live.
    static Result<Daemon> find(std::vector<pid_t> pids);

    /// How often sample should be called during a run.
    static constexpr unsigned kSampleMs = 50;

    /// A run begins: its peak and processor time start at nothing.
    void begin();

    /// Looks at memory and processor time.
    void sample();

    /// User and system time since begin, of all processes; of one that died until its last sample.
    [[nodiscard]] double cpu_s() const;

    /// The most memory of all processes together in a sample since begin; see parse_status_memory.
    [[nodiscard]] std::uint64_t peak_bytes() const { return peak_; }

    /// A sentence, "the daemon tierfs (process 7) has ended", when one did.
    [[nodiscard]] std::optional<std::string> lost() const;

    [[nodiscard]] std::vector<pid_t> pids() const;
    [[nodiscard]] const std::string& command() const { return processes_.front().name; }

  private:
    struct Process {
        pid_t pid = 0;
        std::string name;
        std::uint64_t started = 0;  ///< another number: another process, which has got the same pid
        double begun_s = 0, now_s = 0;
        bool gone = false;
    };
    std::vector<Process> processes_;
    std::uint64_t peak_ = 0;
};

/// The process that serves the tierfs mount with this device number ("0:52"): its daemon, as that says on its control socket,
/// where `directory` is the one of those. None when there is no such socket, or no answer in some seconds.
std::optional<pid_t> tierfs_daemon(const std::string& device_number,
                                   const std::string& directory = "/run/tierfs");

}  // namespace tierfs::iobench
