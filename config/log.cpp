#include "config/log.hpp"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>

#include "config/mutex.hpp"

namespace tierfs::log {

namespace {

constexpr unsigned kErrorsPerSecond = 5;

std::atomic<Level> threshold{Level::info};

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
    return spdlog::level::info;
}

/// Object names come from outside: one event stays one line, and no terminal obeys it.
std::string escape(std::string_view line) {
    std::string escaped;
    escaped.reserve(line.size());
    for (const char character : line) {
        const auto byte = static_cast<unsigned char>(character);
        if (byte >= 0x20 && byte != 0x7f) {
            escaped += character;
            continue;
        }
        std::array<char, 8> code{};
        std::snprintf(code.data(), code.size(), "\\x%02x", byte);
        escaped += code.data();
    }
    return escaped;
}

/// Lets a few warnings and errors through each second and counts the rest: a broken origin makes thousands.
class Limiter {
  public:
    /// Returns how many lines were left out before this one, or -1 when this one is to be left out.
    long admit() {
        const auto now = std::chrono::steady_clock::now();
        const MutexLock lock(mutex_);
        if (now - since_ >= std::chrono::seconds(1)) {
            since_ = now;
            count_ = 0;
        }
        if (count_ >= kErrorsPerSecond) {
            ++left_out_;
            return -1;
        }
        ++count_;
        return std::exchange(left_out_, 0);
    }

  private:
    Mutex mutex_;
    std::chrono::steady_clock::time_point since_ TIERFS_GUARDED_BY(mutex_);
    unsigned count_ TIERFS_GUARDED_BY(mutex_) = 0;
    long left_out_ TIERFS_GUARDED_BY(mutex_) = 0;
};

Limiter& limiter() {
    static Limiter instance;  // the log is the one thing that everybody reaches without being handed it
    return instance;
}

}  // namespace

std::string open(Level level, const std::string& file) {
    std::string problem;
    std::shared_ptr<spdlog::logger> logger;
    if (!file.empty()) {
        try {
            logger = std::make_shared<spdlog::logger>(
                "tierfs", std::make_shared<spdlog::sinks::basic_file_sink_mt>(file));
        } catch (const std::exception& error) {
            problem = "log file '" + file + "' cannot be written: " + error.what();
        }
    }
    if (!logger) {
        logger =
            std::make_shared<spdlog::logger>("tierfs", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    }
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %P %v");
    logger->set_level(spdlog::level::trace);
    logger->flush_on(spdlog::level::info);
    logger->set_error_handler([](const std::string&) {});  // a full disk must not end in an exception
    spdlog::set_default_logger(std::move(logger));
    threshold = level;
    return problem;
}

bool enabled(Level level) {
    return level >= threshold.load(std::memory_order_relaxed);
}

void write(Level level, std::string_view line) {
    if (!enabled(level)) return;
    try {
        if (level >= Level::warning) {
            const long left_out = limiter().admit();
            if (left_out < 0) return;
            if (left_out > 0) spdlog::warn("{} more warnings and errors were left out", left_out);
        }
        spdlog::log(to_spdlog(level), "{}", escape(line));
    } catch (...) {  // NOLINT(bugprone-empty-catch): nothing is left to tell it to
    }
}

void flush() {
    spdlog::default_logger()->flush();
}

}  // namespace tierfs::log
