// The HTTP engine: what backends send requests with.
#pragma once

#include <atomic>

#include "backends/http/admission.hpp"
#include "backends/http/reactor.hpp"

namespace tierfs::http {

struct EngineOptions {
    unsigned connections = 64;  ///< largest number of requests in flight
    unsigned threads = 1;       ///< reactors
    WireOptions wire;
};

/// Sends single attempts: HTTP/1.1 over kept connections, at most `connections` at a time, demand first,
/// fewer when the server throttles (503, 429). Deadlines count from when the caller set them, queueing
/// included. Repeating is the caller's (see retry.hpp), with timers of the engine.
///
/// Thread-safe. Completions run on a reactor's thread, or on the caller's when the engine has stopped; they
/// must not block. The constructor throws std::runtime_error where libcurl cannot be set up.
class Engine final : private Dispatcher {
  public:
    explicit Engine(EngineOptions options);
    ~Engine() override;
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    void send(Request request, Completion done) TIERFS_EXCLUDES(mutex_);

    /// Sends and waits. Not on a reactor's thread.
    Response fetch(Request request) TIERFS_EXCLUDES(mutex_);

    /// Calls `timer` once, at `when` (false) or at the stop (true), on a reactor's thread or, after the stop,
    /// on this.
    void at(Clock::time_point when, Reactor::Timer timer);

    /// How many requests may be in flight now.
    [[nodiscard]] unsigned window() TIERFS_EXCLUDES(mutex_);

    /// One more request would start at once, and the server is not asking for fewer.
    [[nodiscard]] bool has_spare_connection(const Request& request) TIERFS_EXCLUDES(mutex_);

    /// Completes everything with Failure::cancelled; on return no completion runs and none will, but for
    /// requests sent afterwards, which are cancelled at once. Not from a completion. Idempotent.
    void stop() TIERFS_EXCLUDES(mutex_);

  private:
    std::vector<TransferPtr> ended(const Transfer& transfer) override TIERFS_EXCLUDES(mutex_);
    std::vector<TransferPtr> overdue(Clock::time_point now) override TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] bool has_waiting() const override { return waiting_.load(std::memory_order_relaxed) > 0; }

    std::vector<TransferPtr> admissible() TIERFS_REQUIRES(mutex_);
    void post(TransferPtr transfer);

    Mutex mutex_;
    bool stopped_ TIERFS_GUARDED_BY(mutex_) = false;
    AdmissionQueue<TransferPtr> queue_ TIERFS_GUARDED_BY(mutex_);
    std::atomic<std::size_t> waiting_{0};
    std::atomic<unsigned> next_reactor_{0};
    std::vector<std::unique_ptr<Reactor>> reactors_;  ///< fixed after construction
};

}  // namespace tierfs::http
