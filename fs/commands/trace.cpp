#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "fs/cli/say.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/find_mount.hpp"
#include "fs/commands/parse.hpp"
#include "fs/control/control.hpp"
#include "fs/observe/trace_lines.hpp"

namespace tierfs {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr auto kTracePatience = std::chrono::seconds(30);  // a daemon may be replaced meanwhile
constexpr auto kTraceTick = std::chrono::milliseconds(100);

struct TraceOptions {
    std::string mountpoint, file;
    double seconds = 0;
    std::uint64_t limit = 0;
    bool json = false, order = false;
};

/// The signals that end a trace, which come to `came` alone.
class EndingSignals {
  public:
    EndingSignals() {
        ::sigemptyset(&signals_);
        for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals_, signal);
        ::sigprocmask(SIG_BLOCK, &signals_, nullptr);
        ::signal(SIGPIPE, SIG_IGN);  // writing tells
    }
    /// Waits for one, for that long.
    [[nodiscard]] bool came(std::chrono::nanoseconds patience) const {
        const timespec limit{patience / std::chrono::seconds(1),
                             (patience % std::chrono::seconds(1)).count()};
        return ::sigtimedwait(&signals_, nullptr, &limit) > 0;
    }

  private:
    sigset_t signals_{};
};

/// A tracer of the mount; begins again with the next daemon.
class Tracer {
  public:
    explicit Tracer(ControlAddress address) : address_(std::move(address)) {}

    Result<void> start() {
        const auto started = ask_control(address_, "trace-start", kTracePatience);
        if (!started) return fail(started.error());
        number_ = started->is_object() ? started->value("trace", std::uint64_t{0}) : 0;
        return {};
    }
    Result<TraceLines> take() {
        auto answer = ask("trace-take");
        if (!answer && (answer.error().code == EACCES || answer.error().code == ECONNRESET))
            answer = ask("trace-take");  // the daemon died with the question
        if (!answer) return fail(answer.error());
        auto lines = read_trace_lines(*answer);
        if (!lines || !lines->ended) return lines;
        sayf(stderr, "tierfs: another daemon serves the mount: reads in between are not shown\n");
        if (auto again = start(); !again) return fail(again.error());
        return lines;
    }
    void stop() const { [[maybe_unused]] const auto told = ask("trace-stop"); }

  private:
    [[nodiscard]] Result<Json> ask(const char* command) const {
        return send_control(address_, Json{{"command", command}, {"trace", number_}}, kTracePatience);
    }
    const ControlAddress address_;
    std::uint64_t number_ = 0;
};

/// Prints; counts against the limit what was printed.
class Output {
  public:
    Output(std::FILE* file, TraceLineWriter& writer, std::uint64_t limit)
        : file_(file),
          writer_(writer),
          left_(limit == 0 ? std::numeric_limits<std::uint64_t>::max() : limit) {
        put(writer_.head());
        std::fflush(file_);
    }
    void print(const TraceLines& lines) {
        for (const auto& line : lines.lines) {
            if (left_ == 0) return;
            const auto text = writer_.line(line);
            if (!text.empty()) --left_;
            put(text);
        }
        dropped_ += lines.dropped;
        put(writer_.dropped(lines.dropped));
        std::fflush(file_);
    }
    [[nodiscard]] bool is_full() const { return left_ == 0; }
    [[nodiscard]] bool failed() const { return std::ferror(file_) != 0; }
    [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

  private:
    void put(const std::string& text) { say_exactly(file_, text); }
    std::FILE* const file_;
    TraceLineWriter& writer_;
    std::uint64_t left_, dropped_ = 0;
};

Result<void> follow(Tracer& tracer, Output& output, const EndingSignals& signals, double seconds) {
    const auto end = seconds == 0 ? Clock::time_point::max()
                                  : Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                       std::chrono::duration<double>(seconds));
    bool last = false;
    while (true) {
        const auto lines = tracer.take();
        if (!lines) return fail(lines.error());
        output.print(*lines);
        if (output.is_full() || output.failed()) return {};
        if (lines->more) continue;
        if (last) return {};
        const auto left = std::max(end - Clock::now(), Clock::duration::zero());
        last = signals.came(std::min<Clock::duration>(left, kTraceTick)) || Clock::now() >= end;
    }
}

int run_trace(const TraceOptions& options, const MountEntry& mount) {
    const auto address = control_of(mount);
    if (!address) return command_failed(address.error().message);
    const EndingSignals signals;
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(nullptr, &std::fclose);
    if (!options.file.empty()) {
        file.reset(std::fopen(options.file.c_str(), "we"));
        if (!file) return command_failed(system_error(errno, options.file).message);
    }
    using Form = TraceLineWriter::Form;
    TraceLineWriter writer(options.order  ? Form::order
                           : options.json ? Form::json
                                          : Form::columns,
                           mount.mountpoint);
    Tracer tracer(*address);
    if (auto started = tracer.start(); !started)
        return command_failed(unanswered(mount, started.error().within(options.mountpoint)).message);
    sayf(stderr, "tierfs: tracing %s; Ctrl-C ends it\n", options.mountpoint.c_str());
    Output output(file ? file.get() : stdout, writer, options.limit);
    const auto followed = follow(tracer, output, signals, options.seconds);
    tracer.stop();
    if (output.dropped() != 0) {
        sayf(stderr, "tierfs: %llu events came faster than they were fetched, and are not shown\n",
             static_cast<unsigned long long>(output.dropped()));
    }
    if (writer.left_out() != 0) {
        sayf(stderr, "tierfs: %llu names with a newline are left out: no list can hold them\n",
             static_cast<unsigned long long>(writer.left_out()));
    }
    if (!followed)
        return command_failed(unanswered(mount, followed.error().within(options.mountpoint)).message);
    if (output.failed()) return command_failed("the trace cannot be written");
    return 0;
}

}  // namespace

int trace_command(const std::vector<std::string>& arguments) {
    TraceOptions options;
    CLI::App app("Shows who reads what from a mount, from which tier and how fast, until Ctrl-C",
                 "tierfs trace");
    app.add_option("MOUNTPOINT", options.mountpoint, "a tierfs mount")->required();
    app.add_option("--seconds", options.seconds, "end after so long")->check(CLI::Range(0.1, 1e6));
    app.add_option("--limit", options.limit, "end after so many lines")->check(CLI::Range(1ULL, 1ULL << 60U));
    auto* const json = app.add_flag("--json", options.json, "print an object a line");
    app.add_flag("--order", options.order,
                 "print the path of each file when it is read first: a list for tierfs warm -f")
        ->excludes(json);
    app.add_option("-o", options.file, "write to this file instead of standard output");
    if (const auto ended = parse_arguments(app, arguments)) return *ended;

    const auto mount = find_tierfs_mount(options.mountpoint);
    if (!mount) return command_failed(mount.error().message);
    return run_trace(options, *mount);
}

}  // namespace tierfs
