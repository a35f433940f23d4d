// A program on disk that can serve a mount whose connection others hold.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"
#include "config/settings.hpp"
#include "fs/daemon/channel.hpp"
#include "fs/daemon/takeover_request.hpp"
#include "fs/session/connection_record.hpp"

namespace tierfs {

/// What somebody mounted: the path of the program (program_path) and what the settings came from.
struct MountRequest {
    std::string program;
    SettingsSources sources;
};

/// A child process and the line to it.
struct DaemonProcess {
    pid_t pid = -1;
    Channel channel;
};

/// A program and what it is told. Both are held open: what is changed on disk later does not matter. Movable
/// value.
class ProgramImage {
  public:
    /// The file that lies at `path` now, and `request` with the text that its configuration file has now.
    /// Errors: one of them cannot be read.
    static Result<ProgramImage> read(const std::string& path, TakeoverRequest request);

    /// Starts it (fork, exec) as `tierfs --take-over`, see run_standby; `why` is kReload or kRestart. For a
    /// process without threads. Errors: no processes or descriptors; that it cannot be executed it says
    /// itself.
    [[nodiscard]] Result<DaemonProcess> start(const ConnectionRecord& record, const char* why) const;

  private:
    ProgramImage(std::string path, FileDescriptor program, FileDescriptor request)
        : path_(std::move(path)), program_(std::move(program)), request_(std::move(request)) {}
    [[noreturn]] void execute(Channel channel, const std::string& mountpoint) const;

    std::string path_, mountpoint_;
    FileDescriptor program_, request_;
};

}  // namespace tierfs
