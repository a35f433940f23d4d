#include "fs/commands/flush.hpp"

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "config/base/log_lines.hpp"
#include "config/base/units.hpp"
#include "fs/cli/progress.hpp"
#include "fs/cli/say.hpp"
#include "fs/cli/signals.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/find_mount.hpp"
#include "fs/commands/parse.hpp"

namespace tierfs {

namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{10}, kLongestStandstill{60};
constexpr std::chrono::milliseconds kBetweenLooks{100};

/// What of the status is about the queue; an object without members: the mount has none.
Result<Json> queue_of(const ControlAddress& address) {
    auto status = ask_control(address, "status", kPatience);
    if (!status) return status;
    const Json::json_pointer queue("/writes/queue");
    if (!status->contains(queue) || !(*status)[queue].is_object()) return Json::object();
    return (*status)[queue];
}

std::uint64_t count_of(const Json& json, const char* member) {
    return json.value(member, std::uint64_t{0});
}

std::string text_of(const Json& queue) {
    return std::to_string(count_of(queue, "entries")) + " changes, " + format_size(count_of(queue, "bytes"));
}

}  // namespace

Result<void> flush_mount(const ControlAddress& address, const StopFlag& stop) {
    auto queue = queue_of(address);
    if (!queue) return fail(queue.error());
    if (queue->empty() || count_of(*queue, "entries") == 0) return {};
    const auto begun = ask_control(address, "flush", kPatience);
    if (!begun) return fail(begun.error());
    const auto to = count_of(*begun, "to");
    ProgressLine progress;
    auto done = count_of(*queue, "done");
    auto since = Clock::now();
    while (count_of(*queue, "done_to") < to) {
        if (stop.requested()) return fail(EINTR, text_of(*queue) + " are still in the journal");
        progress.tell([&](double seconds) {
            return "to upload: " + text_of(*queue) + ", for " + std::to_string(static_cast<long>(seconds)) +
                   " s";
        });
        std::this_thread::sleep_for(kBetweenLooks);
        queue = queue_of(address);
        if (!queue) return fail(queue.error());
        const auto error = queue->value("error", std::string());
        if (count_of(*queue, "done") != done || error.empty()) {
            done = count_of(*queue, "done");
            since = Clock::now();
        } else if (Clock::now() - since > kLongestStandstill) {
            progress.end();
            return fail(EAGAIN, text_of(*queue) +
                                    " are still in the journal, and the bucket takes nothing: " + error);
        }
    }
    progress.end();
    return {};
}

int flush_command(const std::vector<std::string>& arguments) {
    std::string path;
    bool wait = false, json = false;
    CLI::App app("Has what a mount with writes=back holds in its journal brought to the bucket now",
                 "tierfs flush");
    app.add_option("PATH", path, "a tierfs mount, or a path in it: all of the mount is brought there")
        ->required();
    app.add_flag("--wait", wait, "wait until it is there");
    app.add_flag("--json", json, "print JSON: what is left in the journal");
    if (const auto ended = parse_arguments(app, arguments)) return *ended;

    const auto mounts = read_mountinfo();
    if (!mounts) return command_failed(mounts.error().message);
    const auto place = find_place(*mounts, path);
    if (!place) return command_failed(place.error().message);
    const auto address = control_of(place->mount);
    if (!address) return command_failed(address.error().message);
    const auto failed = [&](const Error& error) {
        return command_failed(unanswered(place->mount, error.within(place->mount.mountpoint)).message);
    };
    if (wait) {
        StopFlag stop;
        const Signals signals(stop);
        if (const auto done = flush_mount(*address, stop); !done) return failed(done.error());
    } else if (const auto begun = ask_control(*address, "flush", kPatience); !begun) {
        return failed(begun.error());
    }
    const auto queue = queue_of(*address);
    if (!queue) return failed(queue.error());
    if (json) {
        say_json(stdout,
                 Json{{"entries", count_of(*queue, "entries")}, {"bytes", count_of(*queue, "bytes")}}.dump());
    } else if (count_of(*queue, "entries") != 0) {
        sayf(stdout, "%s: %s are still to be brought to the bucket\n",
             log::escaped(place->mount.mountpoint).c_str(), text_of(*queue).c_str());
    }
    return 0;
}

}  // namespace tierfs
