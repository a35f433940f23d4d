// tierfs warm, evict, pin, unpin: paths are handed to the daemons of their mounts, which do the work.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "config/base/log_lines.hpp"
#include "config/base/units.hpp"
#include "fs/cli/say.hpp"
#include "fs/cli/signals.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/find_mount.hpp"
#include "fs/commands/parse.hpp"
#include "fs/control/control.hpp"

namespace tierfs {

namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::milliseconds kTick{200};
constexpr std::chrono::seconds kLineEvery{10};
constexpr std::size_t kMostSent =
    32 << 10;  // of ControlServer::kLongestRequest, JSON's escapes being up to as much

/// The part of the job that one mount does.
struct Part {
    ControlAddress address;
    MountEntry mount;
    std::vector<std::string> waiting;  ///< paths not handed over yet
    std::size_t next = 0;
    std::uint64_t job = 0;
    Json status = Json::object();
};

std::uint64_t count_of(const Json& status, const char* member) {
    return status.value(member, std::uint64_t{0});
}

class TreeCommand {
  public:
    TreeCommand(std::string kind, bool json) : kind_(std::move(kind)), json_(json) {}

    Result<void> add(const std::vector<MountEntry>& mounts, const std::string& path) {
        auto place = find_place(mounts, path);
        if (!place) return fail(place.error());
        auto found = parts_.find(place->mount.device());
        if (found == parts_.end()) {
            auto address = control_of(place->mount);
            if (!address) return fail(address.error());
            found = parts_.emplace(place->mount.device(), Part{}).first;
            found->second.address = std::move(*address);
            found->second.mount = place->mount;
        }
        Part& part = found->second;
        part.waiting.push_back(std::move(place->path));
        return {};
    }

    /// Hands all paths over; the daemons take them as they get on.
    Result<void> hand_over() {
        for (auto& [device, part] : parts_) {
            auto started = ask(part, {{"command", "job-start"}, {"kind", kind_}});
            if (!started) return fail(started.error());
            part.job = count_of(*started, "job");
        }
        for (auto& [device, part] : parts_) {
            while (part.next < part.waiting.size()) {
                if (auto sent = send_some(part); !sent) return sent;
            }
            auto sealed = ask(part, {{"command", "job-seal"}, {"job", part.job}});
            if (!sealed) return fail(sealed.error());
        }
        return {};
    }

    /// Stops all jobs of the kind on the mounts that were named. How many those were.
    Result<std::uint64_t> cancel() {
        std::uint64_t stopped = 0;
        for (auto& [device, part] : parts_) {
            const auto told = ask(part, {{"command", "job-cancel"}, {"kind", kind_}});
            if (!told) return fail(told.error());
            stopped += count_of(*told, "stopped");
        }
        return stopped;
    }

    enum class Until : std::uint8_t { settled, end };

    /// Until all is done, or, for pins, written down; with progress. `stop`: ends the jobs, which is then waited for.
    Result<void> wait(Until until, const StopFlag& stop) {
        bool is_stopped = false;
        const bool terminal = ::isatty(STDERR_FILENO) != 0;
        const auto begun = Clock::now();
        auto told = begun;
        for (bool running = true; running;) {
            running = false;
            if (stop.requested() && !std::exchange(is_stopped, true)) {
                for (auto& [each, stopped] : parts_) {
                    auto done = ask(stopped, {{"command", "job-stop"}, {"job", stopped.job}});
                    if (!done) return fail(done.error());
                }
            }
            for (auto& [device, part] : parts_) {
                auto status = ask(part, {{"command", "job-status"}, {"job", part.job}});
                if (!status) return fail(status.error());
                part.status = std::move(*status);
                const bool enough = until == Until::settled && part.status.value("settled", false);
                running = running || (!enough && part.status.value("running", false));
            }
            if (terminal || Clock::now() - told >= kLineEvery) {
                told = Clock::now();
                const double seconds = std::chrono::duration<double>(told - begun).count();
                if (terminal) {
                    say_over(stderr, progress_line(seconds));
                } else {
                    say_line(stderr, progress_line(seconds));
                }
            }
            if (running) std::this_thread::sleep_for(kTick);
        }
        if (terminal) say_over(stderr, "");
        return {};
    }

    /// What came of it; the exit status. `ended`: it is done, and there are figures to print.
    int report(bool ended) const {
        for (const auto& [device, part] : parts_) print_failures(part);
        const std::uint64_t failed = sum("failed");
        if (!ended) return failed == 0 ? 0 : 1;
        if (json_) {
            say_json(stdout, Json{{"files", sum("files")},
                                  {"bytes", sum("bytes")},
                                  {"brought_bytes", sum("brought_bytes")},
                                  {"unchanged_files", sum("unchanged_files")},
                                  {"failed", failed}}
                                 .dump());
        } else if (kind_ == "unpin") {
            sayf(stdout, "let go of %llu paths, %llu failed\n", static_cast<unsigned long long>(sum("files")),
                 static_cast<unsigned long long>(failed));
        } else {
            sayf(stdout, "%s %s in %llu files, %llu were so already, %llu failed\n", verb(failed == 0),
                 format_size(sum("brought_bytes")).c_str(), static_cast<unsigned long long>(sum("files")),
                 static_cast<unsigned long long>(sum("unchanged_files")),
                 static_cast<unsigned long long>(failed));
        }
        return failed == 0 ? 0 : 1;
    }

  private:
    /// Each reason once, with the first path that it is of.
    static void print_failures(const Part& part) {
        std::vector<std::pair<std::string, std::string>> reasons;  // error, path
        std::map<std::string, unsigned> times;
        for (const Json& failure : part.status.value("failures", Json::array())) {
            const auto text = [&](const char* member) {
                return path_from_wire(failure.value(member, std::string())).value_or("?");
            };
            if (++times[text("error")] == 1) reasons.emplace_back(text("error"), text("path"));
        }
        for (const auto& [error, path] : reasons) {
            const auto all =
                reasons.size() == 1 ? count_of(part.status, "failed") : times[error];  // all are counted
            const auto more = all - 1;
            const auto line = part.mount.mountpoint + (path.empty() ? "" : "/") + path + ": " + error +
                              (more == 0 ? "" : " (and " + std::to_string(more) + " more)");
            say_line(stderr, "tierfs: " + line);
        }
    }

    [[nodiscard]] const char* verb(bool all) const {
        if (kind_ == "evict") return "gave up";
        return kind_ == "pin" && all ? "pinned, and brought" : "brought";
    }

    static Result<Json> ask(const Part& part, const Json& request) {
        auto answer = send_control(part.address, request, kPatience);
        if (!answer) return fail(unanswered(part.mount, answer.error().within(part.mount.mountpoint)));
        if (!answer->is_object())
            return fail(EIO, part.mount.mountpoint + ": the mount's answer is not understood");
        return answer;
    }

    Result<void> send_some(Part& part) const {
        Json paths = Json::array();
        std::size_t bytes = 0;
        for (std::size_t at = part.next; at < part.waiting.size(); ++at) {
            auto path = path_to_wire(part.waiting[at]);
            bytes += path.size() + 4;
            if (!paths.empty() && bytes > kMostSent) break;
            paths.push_back(std::move(path));
        }
        const auto answer = ask(part, {{"command", "job-paths"}, {"job", part.job}, {"paths", paths}});
        if (!answer) return fail(answer.error());
        const std::uint64_t taken = count_of(*answer, "taken");
        part.next += taken;
        if (taken == 0) std::this_thread::sleep_for(kTick);
        return {};
    }

    [[nodiscard]] std::uint64_t sum(const char* member) const {
        std::uint64_t total = 0;
        for (const auto& [device, part] : parts_) total += count_of(part.status, member);
        return total;
    }

    [[nodiscard]] std::string progress_line(double seconds) const {
        const std::uint64_t done = sum("bytes"), found = sum("found_bytes"), brought = sum("brought_bytes");
        const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
        bool walking = false;
        for (const auto& [device, part] : parts_) walking = walking || part.status.value("walking", false);
        std::string text = format_size(done) + " of " + (walking ? "at least " : "") + format_size(found) +
                           ", " + std::to_string(sum("files")) + " of " + std::to_string(sum("found_files")) +
                           " files, " + format_size(brought) + " brought, " +
                           format_size(static_cast<std::uint64_t>(rate)) + "/s";
        if (!walking && rate > 0)
            text += ", ETA " +
                    std::to_string(static_cast<std::uint64_t>(static_cast<double>(found - done) / rate)) +
                    " s";
        return text;
    }

    const std::string kind_;
    const bool json_;
    std::map<std::string, Part> parts_;  ///< by device
};

/// A path a line; "-" is standard input.
Result<std::vector<std::string>> read_list(const std::string& name) {
    std::ifstream file;
    if (name != "-") file.open(name);
    std::istream& in = name == "-" ? std::cin : file;
    if (!in) return fail(ENOENT, name + ": the list cannot be read");
    std::vector<std::string> paths;
    for (std::string line; std::getline(in, line);) {
        if (!line.empty()) paths.push_back(std::move(line));
    }
    if (in.bad()) return fail(EIO, name + ": the list cannot be read to its end");
    return paths;
}

int run_tree_command(const std::string& kind, std::vector<std::string> paths, const std::string& list,
                     bool wait, bool json, bool cancels) {
    if (!list.empty()) {
        auto listed = read_list(list);
        if (!listed) return command_failed(listed.error().message);
        paths.insert(paths.end(), std::make_move_iterator(listed->begin()),
                     std::make_move_iterator(listed->end()));
    } else if (paths.empty()) {
        return wrong_usage("name a PATH in a mount, or a list of them with -f LIST", "tierfs " + kind);
    }
    // What is pinned may be gone by now; all else that is named must be there.
    for (const auto& path : list.empty() && kind != "unpin" ? paths : std::vector<std::string>()) {
        struct stat found {};
        if (::lstat(path.c_str(), &found) != 0 && (errno == ENOENT || errno == ENOTDIR))
            return command_failed(system_error(errno, path).message + ": nothing was begun");
    }
    const auto mounts = read_mountinfo();
    if (!mounts) return command_failed(mounts.error().message);
    TreeCommand command(kind, json);
    for (const auto& path : paths) {
        if (const auto added = command.add(*mounts, path); !added)
            return command_failed(added.error().message);
    }
    if (cancels) {
        const auto stopped = command.cancel();
        if (!stopped) return command_failed(stopped.error().message);
        sayf(stdout, "stopped %llu jobs\n", static_cast<unsigned long long>(*stopped));
        return 0;
    }
    if (const auto handed = command.hand_over(); !handed) return command_failed(handed.error().message);
    if (!wait && kind != "pin") return 0;
    const auto until = wait ? TreeCommand::Until::end : TreeCommand::Until::settled;
    StopFlag stop;
    const Signals signals(stop);
    if (const auto waited = command.wait(until, stop); !waited) return command_failed(waited.error().message);
    return command.report(wait);
}

/// `background`: it goes on by itself unless --wait is given; else it is waited for.
int tree_command(const std::string& kind, const char* what, bool background,
                 const std::vector<std::string>& arguments) {
    std::vector<std::string> paths;
    std::string list;
    bool wait = !background;
    bool json = false;
    bool cancels = false;
    CLI::App app(what, "tierfs " + kind);
    app.add_option("PATH", paths, "files and directories in mounts of tierfs");
    app.add_option("-f", list, "a file with a path on each line; - is standard input");
    if (background) {
        app.add_flag("--wait", wait, "wait for the end, with progress; Ctrl-C ends the job");
        app.add_flag("--cancel", cancels, "end all such jobs of the mounts that the paths are in");
    }
    app.add_flag("--json", json,
                 background ? "print what came of it as JSON; with --wait" : "print what came of it as JSON");
    if (const auto ended = parse_arguments(app, arguments)) return *ended;
    return run_tree_command(kind, std::move(paths), list, wait, json, cancels);
}

}  // namespace

int warm_command(const std::vector<std::string>& arguments) {
    return tree_command("warm", "Brings files into the tiers of their mount, in the background", true,
                        arguments);
}

int evict_command(const std::vector<std::string>& arguments) {
    return tree_command("evict", "Gives up what the tiers hold of files", false, arguments);
}

int pin_command(const std::vector<std::string>& arguments) {
    return tree_command("pin", "Brings files into the tiers of their mount, and keeps them there", true,
                        arguments);
}

int unpin_command(const std::vector<std::string>& arguments) {
    return tree_command("unpin", "Lets go of what was pinned", false, arguments);
}

}  // namespace tierfs
