#include <signal.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <thread>

#include "fs/cli/say.hpp"
#include "fs/cli/terminal.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/find_mount.hpp"
#include "fs/commands/parse.hpp"
#include "fs/commands/sampler.hpp"
#include "fs/observe/top_screen.hpp"

namespace tierfs {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kKeyPatience = std::chrono::seconds(2);  // keys wait meanwhile

struct TopOptions {
    std::string mountpoint;
    bool once = false, batch = false;
    double interval = 2;
    unsigned pictures = 0;  ///< of a batch; 0: without end
    std::size_t width = 80, height = 24;

    [[nodiscard]] Clock::duration period() const {
        return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval));
    }
};

std::string time_of_day() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    char text[16] = "";
    if (::localtime_r(&now, &parts) != nullptr) std::strftime(text, sizeof(text), "%H:%M:%S", &parts);
    return text;
}

/// The last moment, and what lies between it and now.
class Pictures {
  public:
    explicit Pictures(std::string mountpoint) : mountpoint_(std::move(mountpoint)) {}

    /// Begins an interval. Why it cannot, or nothing.
    Result<void> begin() {
        auto taken = take_snapshot(mountpoint_, kKeyPatience);
        if (!taken) return fail(taken.error());
        last_ = std::move(*taken);
        return {};
    }

    /// Ends the interval and begins the next.
    TopView next() {
        TopView view;
        view.clock = time_of_day();
        auto taken = take_snapshot(mountpoint_, kKeyPatience);
        if (!taken) {
            view.interval.mountpoint = mountpoint_;
            view.notice = taken.error().message;
            last_.reset();
            return view;
        }
        if (!last_) {  // it answers again
            last_ = std::move(*taken);
            view.interval = difference(last_->snapshot, last_->snapshot);
            return view;
        }
        view.interval = difference(last_->snapshot, taken->snapshot);
        // The counters of a daemon that took over began when it did.
        const double age = std::max(taken->snapshot.uptime_s, 0.01);
        const double between = std::chrono::duration<double>(taken->at - last_->at).count();
        view.seconds = last_->snapshot.pid == taken->snapshot.pid ? std::max(between, 0.001) : age;
        last_ = std::move(*taken);
        return view;
    }

  private:
    std::string mountpoint_;
    std::optional<TimedSnapshot> last_;
};

void print(const std::vector<std::string>& lines) {
    for (const auto& line : lines) say_line(stdout, line);
    std::fflush(stdout);
}

int run_batch(Pictures& pictures, const TopOptions& options) {
    for (unsigned number = 0; options.pictures == 0 || number < options.pictures; ++number) {
        std::this_thread::sleep_for(options.period());
        const auto view = pictures.next();
        if (number > 0) sayf(stdout, "\n");
        print(top_lines(view, options.width, options.height));
        if (std::ferror(stdout) != 0) return 1;
        if (options.pictures == 1 && !view.notice.empty()) return 1;
    }
    return 0;
}

int run_live(Pictures& pictures, const TopOptions& options) {
    Terminal terminal;
    const auto first = std::min<Clock::duration>(options.period(), std::chrono::milliseconds(500));
    auto next = Clock::now() + first;
    auto view = pictures.next();
    while (true) {
        const auto size = Terminal::size();
        terminal.draw(top_lines(view, size.width, size.height));
        switch (terminal.wait_until(next)) {
            case Terminal::Event::quit:
                return 0;
            case Terminal::Event::resized:
                break;
            case Terminal::Event::time_passed:
                view = pictures.next();
                next = Clock::now() + options.period();
        }
    }
}

}  // namespace

int top_command(const std::vector<std::string>& arguments) {
    TopOptions options;
    CLI::App app(
        "Shows live what a mount does: from where reads come, what they wait for. q or Ctrl-C ends it",
        "tierfs top");
    app.add_option("MOUNTPOINT", options.mountpoint, "a tierfs mount")->required();
    app.add_flag("--once", options.once, "print one picture, of one interval, and end");
    app.add_flag("--batch", options.batch,
                 "print picture after picture; so does a standard output that is no terminal");
    app.add_option("--interval", options.interval, "seconds from picture to picture")
        ->check(CLI::Range(0.05, 3600.0));
    app.add_option("--count", options.pictures, "end after so many pictures");
    app.add_option("--width", options.width, "columns of what is printed")->check(CLI::Range(20, 1000));
    app.add_option("--height", options.height, "lines of what is printed, at most")
        ->check(CLI::Range(4, 1000));
    if (const auto ended = parse_arguments(app, arguments)) return *ended;

    if (options.once) options.pictures = 1;
    Pictures pictures(options.mountpoint);
    if (auto begun = pictures.begin(); !begun) return command_failed(begun.error().message);
    if (options.once || options.batch || !Terminal::is_there()) return run_batch(pictures, options);
    return run_live(pictures, options);
}

}  // namespace tierfs
