#include "config/base/log.hpp"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "config/base/fault_point.hpp"
#include "config/base/log_file.hpp"
#include "config/base/log_form.hpp"
#include "config/base/log_lines.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::log {

std::string escaped(std::string_view line) {
    constexpr std::string_view hex = "0123456789abcdef";
    std::string out;
    out.reserve(line.size());
    for (std::size_t i = 0; i < line.size(); ++i) {
        const auto byte = static_cast<unsigned char>(line[i]);
        const bool c1_follows = byte == 0xc2 && i + 1 < line.size() &&
                                static_cast<unsigned char>(line[i + 1]) >= 0x80 &&
                                static_cast<unsigned char>(line[i + 1]) < 0xa0;
        const bool c1 =
            byte >= 0x80 && byte < 0xa0 && i > 0 && static_cast<unsigned char>(line[i - 1]) == 0xc2;
        if (byte == '\n') {
            out += "\\n";
        } else if (byte == '\t') {
            out += "\\t";
        } else if (byte < 0x20 || byte == 0x7f || c1_follows || c1) {
            out += "\\x";
            out += hex[byte >> 4];
            out += hex[byte & 15];
        } else {
            out += line[i];
        }
    }
    return out;
}

bool LineLimit::admit(Clock::time_point now) {
    if (over(now)) {
        start_ = now;
        written_ = 0;
    }
    if (written_ < kLinesPerSecond) {
        ++written_;
        return true;
    }
    ++left_out_;
    return false;
}

std::uint64_t LineLimit::take_left_out(Clock::time_point now) {
    return over(now) ? take_all_left_out() : 0;
}

std::uint64_t LineLimit::take_all_left_out() {
    return std::exchange(left_out_, 0);
}

namespace {

/// All that one `open` made. Replaced as a whole, so that a child of fork needs no lock that its parent may
/// have held; the state before stays reachable, since another thread may still be writing through it.
struct State {
    std::shared_ptr<spdlog::logger> logger;
    Level level = Level::warning;
    Form form = Form::text;
    bool journal = false;
    About about;
    Mutex mutex;
    LineLimit warnings TIERFS_GUARDED_BY(mutex);
    LineLimit errors TIERFS_GUARDED_BY(mutex);
    State* previous = nullptr;
};

spdlog::level::level_enum to_spdlog(Level level) {
    switch (level) {
        case Level::debug:
            return spdlog::level::debug;
        case Level::info:
            return spdlog::level::info;
        case Level::warning:
            return spdlog::level::warn;
        case Level::error:
            return spdlog::level::err;
    }
    return spdlog::level::err;
}

// The sink colours its level only when standard error is a terminal.
spdlog::sink_ptr standard_error() {
    return std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
}

class FileSink : public spdlog::sinks::base_sink<std::mutex> {
  public:
    FileSink(const std::string& path, std::uint64_t max_size) : file_(path, max_size) {}

  protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
        spdlog::memory_buf_t line;
        formatter_->format(message, line);
        file_.write(std::string_view(line.data(), line.size()), LogFile::Clock::now());
    }
    void flush_() override {}

  private:
    LogFile file_;
};

/// `sink`: null for standard error.
State* make_state(Level level, Form form, spdlog::sink_ptr sink) {
    auto* state = new State;
    state->form = form;
    state->journal = !sink && is_journal(STDERR_FILENO, std::getenv("JOURNAL_STREAM"));
    if (!sink) sink = standard_error();
    state->logger = std::make_shared<spdlog::logger>("tierfs", std::move(sink));
    state->level = level;
    state->logger->set_level(to_spdlog(level));
    const bool plain = form == Form::json || state->journal;
    state->logger->set_pattern(plain ? "%v" : "%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ [%P] %v");
    state->logger->flush_on(spdlog::level::info);
    state->logger->set_error_handler(
        [](const std::string&) {});  // a full disk must not become a flood of its own
    return state;
}

std::atomic<State*>& current() {
    static std::atomic<State*> state{make_state(Level::warning, Form::text, nullptr)};
    return state;
}

void put(State& state, Level level, std::string_view line, const Fields& fields = {}) {
    const auto give = [&](std::string_view text) {
        state.logger->log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
    };
    if (!state.journal && state.form == Form::text) return give(line);
    std::string text(state.journal ? journal_prefix(level) : "");
    text += state.form == Form::json
                ? json_line(std::chrono::system_clock::now(), level, ::getpid(), line, state.about, fields)
                : std::string(line);
    give(text);
}

void put_left_out(State& state, Level level, std::uint64_t count) {
    if (count != 0) put(state, level, std::to_string(count) + " more lines left out");
}

/// Writes the counts that are due; answers whether a line of `level` may follow.
bool admit(State& state, Level level) {
    std::uint64_t warnings = 0, errors = 0;
    bool admitted = true;
    {
        const auto now = LineLimit::Clock::now();
        MutexLock lock(state.mutex);
        warnings = state.warnings.take_left_out(now);
        errors = state.errors.take_left_out(now);
        if (level == Level::warning) admitted = state.warnings.admit(now);
        if (level == Level::error) admitted = state.errors.admit(now);
    }
    put_left_out(state, Level::warning, warnings);
    put_left_out(state, Level::error, errors);
    return admitted;
}

}  // namespace

std::string open(Level level, const std::string& file, Form form, std::uint64_t max_size, About about) {
    std::string problem;
    spdlog::sink_ptr sink;
    try {
        if (TIERFS_FAULT("log.open") != 0) throw spdlog::spdlog_ex("injected");
        if (!file.empty()) sink = std::make_shared<FileSink>(file, max_size);
    } catch (const std::exception& e) {
        problem =
            "log.file " + escaped(file) + " cannot be written (" + e.what() + "); logging to standard error";
    }
    State* state = make_state(level, form, std::move(sink));
    state->about = std::move(about);
    state->previous = current().load();
    current().store(state);
    return problem;
}

void write(Level level, std::string_view line, const Fields& fields) {
    try {
        State& state = *current().load();
        if (level < state.level || !admit(state, level)) return;
        put(state, level, escaped(line), fields);
    } catch (...) {  // no memory for the line: the work goes on without it
    }
}

bool enabled(Level level) {
    return level >= current().load()->level;
}

void flush() {
    try {
        State& state = *current().load();
        std::uint64_t warnings = 0, errors = 0;
        {
            MutexLock lock(state.mutex);
            warnings = state.warnings.take_all_left_out();
            errors = state.errors.take_all_left_out();
        }
        put_left_out(state, Level::warning, warnings);
        put_left_out(state, Level::error, errors);
        state.logger->flush();
    } catch (...) {
    }
}

}  // namespace tierfs::log
