#include "config/base/fault_point.hpp"

#if TIERFS_TEST_POINTS

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace tierfs::fault {
namespace {

enum class Action : std::uint8_t { error, shorten, tear, delay, kill, stop };

struct Rule {
    std::string point;
    bool prefix = false;
    // When: the hits [first, last]; or every `every`th; or `percent` of them.
    std::uint64_t first = 0, last = 0, every = 0, percent = 0, seed = 0;
    Action action = Action::error;
    int value = 0;  ///< errno or milliseconds
    std::string said;
    std::atomic<std::uint64_t> hits = 0;

    [[nodiscard]] bool matches(std::string_view name) const {
        return prefix ? name.starts_with(point) : name == point;
    }
    [[nodiscard]] bool due(std::uint64_t hit) const {
        if (percent != 0) {
            std::uint64_t mixed = (hit + seed * 0x9E3779B97F4A7C15U) * 0xBF58476D1CE4E5B9U;
            mixed = (mixed ^ (mixed >> 31U)) * 0x94D049BB133111EBU;
            return (mixed ^ (mixed >> 29U)) % 100 < percent;
        }
        if (every != 0) return hit % every == 0;
        return hit >= first && hit <= last;
    }
};

constinit Point* first_point = nullptr;

struct Plan {
    std::vector<std::unique_ptr<Rule>> rules;
    std::string list_file;
};

Plan& plan() {
    static Plan the_plan;
    return the_plan;
}

thread_local bool shorten_next = false;
thread_local bool kill_next = false;

struct ErrorName {
    const char* name;
    int code;
};
constexpr std::array kErrors{
    ErrorName{"EIO", EIO},       ErrorName{"ENOSPC", ENOSPC},         ErrorName{"EROFS", EROFS},
    ErrorName{"EACCES", EACCES}, ErrorName{"EPERM", EPERM},           ErrorName{"ENOENT", ENOENT},
    ErrorName{"EAGAIN", EAGAIN}, ErrorName{"EINTR", EINTR},           ErrorName{"EMFILE", EMFILE},
    ErrorName{"ENFILE", ENFILE}, ErrorName{"ENOMEM", ENOMEM},         ErrorName{"EBADMSG", EBADMSG},
    ErrorName{"ESTALE", ESTALE}, ErrorName{"ETIMEDOUT", ETIMEDOUT},   ErrorName{"EINVAL", EINVAL},
    ErrorName{"EDQUOT", EDQUOT}, ErrorName{"ENOTCONN", ENOTCONN},     ErrorName{"EPIPE", EPIPE},
    ErrorName{"ELOOP", ELOOP},   ErrorName{"EOPNOTSUPP", EOPNOTSUPP}, ErrorName{"ENOTTY", ENOTTY},
    ErrorName{"EBUSY", EBUSY},   ErrorName{"ECONNRESET", ECONNRESET}};

std::optional<std::uint64_t> number(std::string_view text) {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [rest, problem] = std::from_chars(text.data(), end, value);
    if (text.empty() || problem != std::errc() || rest != end || value > 1'000'000'000) return std::nullopt;
    return value;
}

bool parse_when(std::string_view text, Rule& rule) {
    if (text.starts_with('/')) {
        rule.every = number(text.substr(1)).value_or(0);
        return rule.every != 0;
    }
    if (const auto percent = text.find('%'); percent != std::string_view::npos) {
        const auto seed = number(text.substr(percent + 1));
        rule.percent = number(text.substr(0, percent)).value_or(0);
        rule.seed = seed.value_or(0);
        return seed && rule.percent >= 1 && rule.percent <= 100;
    }
    const bool onward = text.ends_with('+');
    rule.first = number(onward ? text.substr(0, text.size() - 1) : text).value_or(0);
    rule.last = onward ? UINT64_MAX : rule.first;
    return rule.first != 0;
}

bool parse_action(std::string_view text, Rule& rule) {
    const auto equals = text.find('=');
    const auto name = text.substr(0, equals);
    const auto value = equals == std::string_view::npos ? std::string_view{} : text.substr(equals + 1);
    rule.said = text;
    if (name == "error") {
        rule.action = Action::error;
        for (const auto& known : kErrors) {
            if (value == known.name) rule.value = known.code;
        }
        if (rule.value == 0) rule.value = static_cast<int>(number(value).value_or(0));
        return rule.value > 0 && rule.value < 4096;
    }
    if (name == "delay") {
        rule.action = Action::delay;
        const auto milliseconds = number(value);
        rule.value = static_cast<int>(milliseconds.value_or(0));
        return milliseconds.has_value();
    }
    if (equals != std::string_view::npos) return false;
    constexpr std::array<std::pair<std::string_view, Action>, 4> kPlain{
        std::pair{"short", Action::shorten}, std::pair{"tear", Action::tear}, std::pair{"kill", Action::kill},
        std::pair{"stop", Action::stop}};
    for (const auto& [plain, action] : kPlain) {
        if (name != plain) continue;
        rule.action = action;
        return true;
    }
    return false;
}

std::string parse_rule(std::string_view text, Rule& rule) {
    const std::string quoted = "TIERFS_TEST_FAULTS: \"" + std::string(text) + "\": ";
    const auto colon = text.find(':');
    const auto second = colon == std::string_view::npos ? colon : text.find(':', colon + 1);
    if (second == std::string_view::npos) return quoted + "a rule is POINT:WHEN:ACTION";
    rule.point = text.substr(0, colon);
    rule.prefix = rule.point.ends_with('*');
    if (rule.prefix) rule.point.pop_back();
    if (!parse_when(text.substr(colon + 1, second - colon - 1), rule)) {
        return quoted + "WHEN is N, N+, /N or PERCENT%SEED";
    }
    if (!parse_action(text.substr(second + 1), rule)) {
        return quoted + "ACTION is error=ERRNO, short, tear, delay=MS, kill or stop";
    }
    for (const Point* point : Point::all()) {
        if (rule.matches(point->name())) return {};
    }
    return quoted + "there is no such fault point";
}

void note(const std::string& line) {
    const auto& file = plan().list_file;
    if (file.empty()) return;
    const int list = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (list < 0) return;
    [[maybe_unused]] const auto written = ::write(list, line.data(), line.size());
    ::close(list);
}

[[noreturn]] void die() {
    ::kill(::getpid(), SIGKILL);
    while (true) ::pause();
}

int act(const Rule& rule) {
    switch (rule.action) {
        case Action::error:
            return rule.value;
        case Action::tear:
            kill_next = true;
            [[fallthrough]];
        case Action::shorten:
            shorten_next = true;
            return 0;
        case Action::delay:
            std::this_thread::sleep_for(std::chrono::milliseconds(rule.value));
            return 0;
        case Action::kill:
            die();
        case Action::stop:
            ::kill(::getpid(), SIGSTOP);
            return 0;
    }
    return 0;
}

}  // namespace

Point::Point(const char* name) noexcept : name_(name), next_(std::exchange(first_point, this)) {}

std::vector<Point*> Point::all() {
    std::vector<Point*> points;
    for (Point* point = first_point; point != nullptr; point = point->next()) points.push_back(point);
    std::sort(points.begin(), points.end(),
              [](const Point* a, const Point* b) { return std::strcmp(a->name(), b->name()) < 0; });
    return points;
}

std::atomic<bool>& Point::armed() {
    static constinit std::atomic<bool> is_armed = false;
    return is_armed;
}

int Point::hit_armed() {
    const int before = errno;
    shorten_next = false;
    if (std::exchange(kill_next, false)) die();
    if (!listed_.exchange(true)) note("hit " + std::string(name_) + " " + std::to_string(::getpid()) + "\n");
    int code = 0;
    for (const auto& rule : plan().rules) {
        if (!rule->matches(name_) || !rule->due(rule->hits.fetch_add(1) + 1)) continue;
        note("fired " + std::string(name_) + " " + rule->said + " " + std::to_string(::getpid()) + "\n");
        code = act(*rule);
        if (code != 0 || shorten_next) break;
    }
    errno = before;
    return code;
}

std::size_t shorten(std::size_t size) {
    if (!std::exchange(shorten_next, false) || size < 2) return size;
    constexpr std::size_t kSector = 4096;  // direct I/O takes no less
    return size >= 2 * kSector ? size / 2 / kSector * kSector : size / 2;
}

std::string configure(std::string_view rules, const std::string& list_file) {
    Plan made;
    made.list_file = list_file;
    for (std::size_t begin = 0; begin < rules.size();) {
        const std::size_t end = std::min(rules.find(';', begin), rules.size());
        auto rule = std::make_unique<Rule>();
        if (const auto text = rules.substr(begin, end - begin); !text.empty()) {
            if (auto problem = parse_rule(text, *rule); !problem.empty()) return problem;
            made.rules.push_back(std::move(rule));
        }
        begin = end + 1;
    }
    plan() = std::move(made);
    std::string names;
    for (Point* point : Point::all()) {
        names += "point " + std::string(point->name()) + "\n";
        point->listed_ = false;
    }
    note(names);
    Point::armed() = !plan().rules.empty() || !list_file.empty();
    return {};
}

std::string configure_from_environment() {
    const char* rules = std::getenv("TIERFS_TEST_FAULTS");
    const char* list = std::getenv("TIERFS_TEST_FAULT_LIST");
    return configure(rules == nullptr ? "" : rules, list == nullptr ? "" : list);
}

}  // namespace tierfs::fault

#endif
