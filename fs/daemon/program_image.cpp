#include "fs/daemon/program_image.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"
#include "config/settings_reread.hpp"

namespace tierfs {

Result<ProgramImage> ProgramImage::read(const std::string& path, TakeoverRequest request) {
    FileDescriptor program(TIERFS_FAULT_CALL("takeover.program", ::open(path.c_str(), O_PATH | O_CLOEXEC)));
    if (!program) return fail(system_error(errno, "the program " + path));
    if (const auto file = settings_file(request.sources.options); !file.empty()) {
        auto text = read_settings_file(file);
        if (!text) return fail(text.error());
        request.config_text = std::move(*text);
    }
    auto told = request.write();
    if (!told) return fail(told.error());
    ProgramImage image(path, std::move(program), std::move(*told));
    image.mountpoint_ = request.sources.mountpoint;
    return image;
}

void ProgramImage::execute(Channel channel, const std::string& mountpoint) const {
    ::fcntl(channel.descriptor(), F_SETFD, 0);  // it alone outlives the exec
    std::string name = "tierfs";
    std::string verb = "--take-over";
    std::string line = std::to_string(channel.descriptor());
    std::string place = mountpoint;
    std::array<char*, 5> arguments{name.data(), verb.data(), line.data(), place.data(), nullptr};
    if (TIERFS_FAULT("takeover.exec") == 0)
        ::execveat(program_.get(), "", arguments.data(), environ, AT_EMPTY_PATH);
    channel.send(Message::Kind::failed, system_error(errno, "the program " + path_).message);
    ::_exit(1);
}

Result<DaemonProcess> ProgramImage::start(const ConnectionRecord& record, const char* why) const {
    auto ends = Channel::make();
    if (!ends) return fail(ends.error());
    log::flush();
    const pid_t child = TIERFS_FAULT_CALL("takeover.fork", ::fork());
    if (child < 0) return fail(system_error(errno, "fork"));
    if (child == 0) {
        ends->first.close();
        execute(std::move(ends->second), mountpoint_);
    }
    DaemonProcess process{child, std::move(ends->first)};
    // One that died already is heard of by its end.
    process.channel.send(Message::Kind::request, why, request_.get());
    process.channel.send(Message::Kind::record, {}, record.descriptor());
    return process;
}

}  // namespace tierfs
