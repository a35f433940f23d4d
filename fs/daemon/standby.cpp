#include "fs/daemon/standby.hpp"

#include <fcntl.h>
#include <sys/prctl.h>

#include <memory>
#include <optional>
#include <utility>

#include "config/base/log.hpp"
#include "fs/daemon/daemon.hpp"
#include "fs/daemon/launch.hpp"
#include "fs/daemon/takeover_request.hpp"

namespace tierfs {

namespace {

/// The next message, if it is of that kind and has a descriptor.
std::optional<Message> expect(Channel& channel, Message::Kind kind) {
    auto message = channel.receive();
    if (!message || message->kind != kind || !message->descriptor) return std::nullopt;
    return message;
}

int refuse(Channel& channel, const Error& why) {
    channel.send(Message::Kind::failed, why.message);
    return 1;
}

}  // namespace

int run_standby(int descriptor, std::map<std::string, std::string> environment) {
    Channel channel{FileDescriptor(descriptor)};
    if (::fcntl(descriptor, F_SETFD, FD_CLOEXEC) != 0) return 2;  // nobody but a supervisor starts this
    ::prctl(PR_SET_NAME, "tierfs");  // exec of a descriptor has named it by number
    const auto asked = expect(channel, Message::Kind::request);
    auto shared = expect(channel, Message::Kind::record);
    if (!asked || !shared) return 2;

    const auto request = TakeoverRequest::read(asked->descriptor);
    if (!request) return refuse(channel, request.error());
    auto record = ConnectionRecord::attach(std::move(shared->descriptor));
    if (!record) return refuse(channel, record.error());
    const auto settings = request->settings(std::move(environment));
    if (!settings) return refuse(channel, settings.error());
    if (const auto problem = open_log(*settings); !problem.empty())
        return refuse(channel, Error{EIO, problem});

    DaemonStart start{*settings, request->scratch, request->supervisor_pid, **record, std::move(channel)};
    start.waits = asked->text == kReload ? WaitForTurn::when_all_is_well : WaitForTurn::always;
    return run_daemon(std::move(start));
}

}  // namespace tierfs
