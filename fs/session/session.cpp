#include "fs/session/session.hpp"

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "config/base/fault_point.hpp"
#include "config/base/log.hpp"
#include "fs/session/set_id.hpp"

namespace tierfs {

namespace {

// The largest request: 1 MiB of data and its headers. Only the pages that a request reaches become resident.
constexpr std::size_t kRequestBuffer = (1 << 20) + (64 << 10);
constexpr int kWakeSignal = SIGUSR1;
constexpr std::int32_t kNotifyResend = 7;  // FUSE_NOTIFY_RESEND, Linux 6.9

void ignore_wake(int /*signal*/) {}

/// Whether its handler may have to ask the source.
bool asks_the_source(std::uint32_t opcode) {
    return opcode != FUSE_INIT && opcode != FUSE_DESTROY && opcode != FUSE_FORGET &&
           opcode != FUSE_BATCH_FORGET && opcode != FUSE_INTERRUPT;
}

// libfuse hands only part of a request's header on to its handlers; they run on the thread that read it.
RequestInfo& this_thread_reads() {
    static thread_local RequestInfo info;
    return info;
}

void install_wake_signal() {
    struct sigaction action {};
    action.sa_handler = ignore_wake;  // without SA_RESTART: a blocked read returns EINTR
    ::sigaction(kWakeSignal, &action, nullptr);
}

// One thread alone counts; others only read.
void count(std::atomic<std::uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// Not a notification, which has no request.
bool is_reply(const iovec& first) {
    fuse_out_header header{};
    if (first.iov_len < sizeof(header)) return false;
    std::memcpy(&header, first.iov_base, sizeof(header));
    return header.unique != 0;
}

ssize_t total(const iovec* vector, int count) {
    ssize_t bytes = 0;
    for (int i = 0; i < count; ++i) bytes += static_cast<ssize_t>(vector[i].iov_len);
    return bytes;
}

class RequestBuffer {
  public:
    RequestBuffer()
        : memory_(
              ::mmap(nullptr, kRequestBuffer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {}
    ~RequestBuffer() {
        if (memory_ != MAP_FAILED) ::munmap(memory_, kRequestBuffer);
    }
    RequestBuffer(const RequestBuffer&) = delete;
    RequestBuffer& operator=(const RequestBuffer&) = delete;
    [[nodiscard]] bool valid() const { return memory_ != MAP_FAILED; }
    /// Makes the page resident that nearly all requests fit in: a process that is killed while the kernel
    /// would have to make it, with a request half copied, fails that request (EIO).
    void touch() { bytes()[0] = std::byte{0}; }
    /// The same of all pages, where an error would be a lost write.
    void touch_all() {
        if (::madvise(memory_, kRequestBuffer, MADV_POPULATE_WRITE) != 0) touch();
    }
    [[nodiscard]] std::span<std::byte> bytes() const {
        return {static_cast<std::byte*>(memory_), kRequestBuffer};
    }

  private:
    void* memory_;
};

}  // namespace

void InFlight::leave() {
    if (count_.fetch_sub(1) != 1) return;
    const MutexLock lock(mutex_);
    none_.notify_all();
}

bool InFlight::wait_until_none(std::chrono::milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    MutexLock lock(mutex_);
    while (count_.load() != 0) {
        if (lock.wait_until(none_, deadline) == std::cv_status::timeout) return count_.load() == 0;
    }
    return true;
}

Session::Session(const SessionHandlers& handlers, FileDescriptor ended)
    : handlers_(handlers),
      takes_over_(handlers.record != nullptr && !handlers.record->init().empty()),
      ended_(std::move(ended)) {}

Result<std::unique_ptr<Session>> Session::open(FileDescriptor device, const SessionHandlers& handlers) {
    FileDescriptor ended(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!ended) return fail(system_error(errno, "eventfd"));
    std::unique_ptr<Session> session(new Session(handlers, std::move(ended)));

    std::array<char, 7> name{"tierfs"};
    std::array<char*, 2> arguments{name.data(), nullptr};
    fuse_args args = FUSE_ARGS_INIT(1, arguments.data());
    session->session_ =
        ::fuse_session_new(&args, handlers.operations, sizeof(*handlers.operations), session.get());
    ::fuse_opt_free_args(&args);
    if (session->session_ == nullptr) return fail(EIO, "libfuse could not make a session");

    fuse_custom_io io{};
    io.read = [](int descriptor, void* buffer, size_t size, void* /*user*/) {
        return ::read(descriptor, buffer, size);
    };
    io.writev = [](int descriptor, iovec* vector, int count, void* user) {
        return static_cast<Session*>(user)->write_reply(descriptor, vector, count);
    };
    const int result = ::fuse_session_custom_io(session->session_, &io, device.get());
    if (result != 0) return fail(system_error(-result, "fuse_session_custom_io"));
    device.release();  // closed by fuse_session_destroy
    if (session->takes_over_) {
        if (auto replayed = session->replay_init(); !replayed) return fail(replayed.error());
    }
    return session;
}

Session::~Session() {
    stop();
    if (session_ != nullptr) ::fuse_session_destroy(session_);
}

unsigned Session::default_threads() {
    return std::clamp(2 * std::thread::hardware_concurrency(), 4U, 16U);
}

Session& Session::of(fuse_req_t request) {
    return *static_cast<Session*>(::fuse_req_userdata(request));
}

// The kernel sends FUSE_INIT once in the life of a connection: libfuse gets what it sent then.
Result<void> Session::replay_init() {
    const auto init = handlers_.record->init();
    std::vector<std::byte> request(init.begin(), init.end());
    const auto offer = read_init_offer(request);
    if (!offer) return fail(EPROTO, "the record of the connection has no FUSE_INIT");
    init_offer_ = *offer;
    init_unique_ = offer->unique;
    replaying_ = true;
    fuse_buf message{};
    message.mem = request.data();
    message.size = request.size();
    ::fuse_session_process_buf(session_, &message);
    replaying_ = false;
    return {};
}

Result<void> Session::ask_for_resend() {
    fuse_out_header again{sizeof(again), kNotifyResend, 0};
    if (TIERFS_FAULT_CALL("fuse.resend", ::write(::fuse_session_fd(session_), &again, sizeof(again))) < 0 &&
        errno != ENODEV && errno != ECONNABORTED)  // unmounted meanwhile: the threads will see
        return fail(system_error(errno, "asking the kernel for the requests that were under way"));
    return {};
}

Result<void> Session::start(Threads threads) {
    install_wake_signal();
    // Before any thread reads: what these had read would be sent once more.
    if (takes_over_) {
        if (auto asked = ask_for_resend(); !asked) return asked;
    }
    least_ = threads.least;
    const auto most = std::max(threads.least, threads.most);
    for (unsigned i = 0; i < most; ++i) busy_.push_back(std::make_unique<Busy>());
    threads_.resize(most);
    may_grow_ = most > least_;
    bool started = true;
    for (unsigned i = 0; i < least_ && started; ++i) started = start_thread(i);
    try {
        if (started && may_grow_) grower_ = std::thread([this] { keep_width(); });
    } catch (const std::system_error&) {
        started = false;
    }
    if (started) return {};
    stop();
    return fail(EAGAIN, "threads of the session could not be started");
}

bool Session::start_thread(std::size_t place) {
    auto& busy = *busy_.at(place);
    running_.fetch_add(1);
    busy.thread = kStarting;
    try {
        threads_.at(place) = std::thread([this, &busy] { serve(busy); });
    } catch (const std::system_error&) {
        busy.thread = 0;
        running_.fetch_sub(1);
        return false;
    }
    return true;
}

bool Session::stop(std::chrono::milliseconds patience) {
    {
        const MutexLock lock(mutex_);
        stopping_ = true;
        crowd_.notify_all();
    }
    if (grower_.joinable()) grower_.join();
    const auto end = RequestInfo::Clock::now() + patience;
    // A signal that comes between the test of stopping_ and the read is lost: send it until all have gone.
    while (running_.load() != 0) {
        if (RequestInfo::Clock::now() >= end) return false;
        for (auto& thread : threads_)
            if (thread.joinable()) ::pthread_kill(thread.native_handle(), kWakeSignal);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    for (auto& thread : threads_)
        if (thread.joinable()) thread.join();
    threads_.clear();
    return true;
}

void Session::serve(Busy& busy) {
    busy.thread = static_cast<pid_t>(::syscall(SYS_gettid));
    sigset_t wake;
    ::sigemptyset(&wake);
    ::sigaddset(&wake, kWakeSignal);
    ::pthread_sigmask(SIG_UNBLOCK, &wake, nullptr);
    bool leaves = false;
    {
        RequestBuffer buffer;
        const bool is_written_to = handlers_.record != nullptr && handlers_.patience.count() != 0;
        if (buffer.valid() && is_written_to) {
            buffer.touch_all();
        } else if (buffer.valid()) {
            buffer.touch();
        }
        leaves = !buffer.valid() && running_ > least_;  // it was to be one more
        if (!buffer.valid() && !leaves)
            log::error("no memory for a request buffer: a thread of the mount ends");
        while (buffer.valid() && !stopping_.load() && receive(buffer.bytes(), busy)) {
            leaves = is_to_leave();
            if (leaves) break;
        }
    }
    ::pthread_sigmask(SIG_BLOCK, &wake, nullptr);
    if (!leaves && !stopping_.load()) tell_end();
    running_.fetch_sub(1);
    busy.thread = 0;
}

bool Session::receive(std::span<std::byte> buffer, Busy& busy) {
    reading_.fetch_add(1, std::memory_order_relaxed);
    const ssize_t size =
        TIERFS_FAULT_CALL("fuse.read", ::read(::fuse_session_fd(session_), buffer.data(), buffer.size()));
    if (reading_.fetch_sub(1, std::memory_order_relaxed) == 1 && may_grow_) call_for_more();
    if (size < 0) {
        if (errno == EINTR || errno == EAGAIN || errno == ENOENT) return true;  // ENOENT: given up meanwhile
        if (errno != ENODEV && errno != ECONNABORTED) {
            log::error(system_error(errno, "reading /dev/fuse").message);
            broken_ = true;
        }
        return false;
    }
    if (static_cast<std::size_t>(size) < sizeof(fuse_in_header)) return true;
    const auto request = buffer.first(static_cast<std::size_t>(size));
    if (init_unique_.load(std::memory_order_relaxed) == 0) {
        if (const auto offer = read_init_offer(request)) {
            init_offer_ = *offer;
            if (handlers_.record != nullptr) handlers_.record->keep_init(request, handlers_.stack_depth);
            init_unique_.store(offer->unique, std::memory_order_release);
        }
    }
    process(request, busy);
    return true;
}

void Session::process(std::span<std::byte> request, Busy& busy) {
    fuse_in_header header{};
    std::memcpy(&header, request.data(), sizeof(header));
    fuse_interrupt_in interrupt{};
    if (header.opcode == FUSE_INTERRUPT && request.size() >= sizeof(header) + sizeof(interrupt))
        std::memcpy(&interrupt, request.data() + sizeof(header), sizeof(interrupt));
    count(busy.messages.at(header.opcode < kOpcodes ? header.opcode : 0));
    // It says what FUSE_CREATE does, with the name "/"; libfuse before 3.15 does not know it.
    if (header.opcode == FUSE_TMPFILE) {
        header.opcode = FUSE_CREATE;
        std::memcpy(request.data(), &header, sizeof(header));
    }
    if (answered_at_once(header)) return;
    const bool may_block = handlers_.patience.count() != 0 && asks_the_source(header.opcode);
    if (may_block) {
        if (const int code = take_turn(static_cast<pid_t>(header.pid)); code != 0)
            return reply_error(header.unique, code);
    }
    auto& info = this_thread_reads();
    info = {header.unique,
            header.nodeid,
            header.opcode,
            static_cast<pid_t>(header.pid),
            busy.thread.load(std::memory_order_relaxed),
            RequestInfo::Clock::now(),
            header.uid,
            header.gid,
            clears_set_id_bits(request)};
    busy.unique.store(info.unique, std::memory_order_relaxed);
    busy.node.store(info.node, std::memory_order_relaxed);
    busy.opcode.store(info.opcode, std::memory_order_relaxed);
    busy.asker.store(info.asker, std::memory_order_relaxed);
    busy.since.store(info.since.time_since_epoch().count(), std::memory_order_release);
    fuse_buf message{};
    message.mem = request.data();
    message.size = request.size();
    ::fuse_session_process_buf(session_, &message);
    if (interrupt.unique != 0) this->interrupt(interrupt.unique);
    busy.since.store(0, std::memory_order_release);
    if (may_block) blocking_.fetch_sub(1);
}

// After libfuse has: a request that another thread is about to add asks libfuse then.
void Session::interrupt(std::uint64_t unique) {
    requests_.mark_interrupted(unique);
    if (auto* const raw = requests_.take_interrupted(unique); raw != nullptr) {
        ::fuse_reply_err(raw, EINTR);
        in_flight_.leave();
    }
}

bool Session::answered_at_once(const fuse_in_header& header) {
    const int code = handlers_.at_once != nullptr ? handlers_.at_once(header.opcode) : SessionHandlers::kAsk;
    if (code == SessionHandlers::kAsk) return false;
    if (code != 0) reply_error(header.unique, code);
    return true;
}

void Session::reply_error(std::uint64_t unique, int code) {
    fuse_out_header reply{sizeof(reply), -code, unique};
    iovec only{&reply, sizeof(reply)};
    write_reply(::fuse_session_fd(session_), &only, 1);
}

std::map<std::string, std::uint64_t> Session::messages() const {
    std::map<std::string, std::uint64_t> sums;
    for (const auto& busy : busy_) {
        for (std::uint32_t opcode = 0; opcode < kOpcodes; ++opcode) {
            const auto count = busy->messages.at(opcode).load(std::memory_order_relaxed);
            if (count != 0) sums[opcode_name(opcode)] += count;
        }
    }
    return sums;
}

const RequestInfo& Session::current() {
    return this_thread_reads();
}

std::vector<RequestInfo> Session::busy_threads() const {
    std::vector<RequestInfo> infos;
    for (const auto& busy : busy_) {
        const auto since = busy->since.load(std::memory_order_acquire);
        if (since == 0) continue;
        infos.push_back({busy->unique.load(), busy->node.load(), busy->opcode.load(), busy->asker.load(),
                         busy->thread.load(),
                         RequestInfo::Clock::time_point(RequestInfo::Clock::duration(since))});
    }
    return infos;
}

std::vector<pid_t> Session::idle_threads() const {
    std::vector<pid_t> threads;
    for (const auto& busy : busy_) {
        const pid_t thread = busy->thread.load();
        if (thread > 0 && busy->since.load(std::memory_order_relaxed) == 0) threads.push_back(thread);
    }
    return threads;
}

bool Session::is_busy_with(pid_t thread, std::uint64_t unique) const {
    return std::any_of(busy_.begin(), busy_.end(), [&](const auto& busy) {
        return busy->thread == thread && busy->since != 0 && busy->unique == unique;
    });
}

ssize_t Session::write_reply(int descriptor, iovec* vector, int count) {
    const auto init = init_unique_.load(std::memory_order_acquire);
    if (init != 0 && count == 2 && vector[0].iov_len == sizeof(fuse_out_header)) {
        fuse_out_header header{};
        std::memcpy(&header, vector[0].iov_base, sizeof(header));
        if (header.unique == init && header.error == 0 && vector[1].iov_len == sizeof(fuse_init_out)) {
            return write_init_reply(descriptor, vector);
        }
    }
    if (leaves_.load() && is_reply(vector[0])) return total(vector, count);
    const ssize_t written = TIERFS_FAULT_CALL("fuse.reply", ::writev(descriptor, vector, count));
    if (written < 0 && errno != ENOENT && errno != ENODEV && errno != ECONNABORTED) {
        reply_lost(descriptor, *vector);
    }
    return written;
}

// The kernel did not take a reply (no memory for it, say), and whoever waits for it would wait for good: an
// error is smaller. If that fails too the mount ends, which tells all. Keeps errno.
void Session::reply_lost(int descriptor, const iovec& first) {
    const int code = errno;
    fuse_out_header header{};
    if (first.iov_len < sizeof(header)) return;
    std::memcpy(&header, first.iov_base, sizeof(header));
    if (header.unique != 0) {  // else it is a notification: nobody waits
        log::error(system_error(code, "a reply to the kernel").message);
        header.error = -EIO;
        header.len = sizeof(header);
        iovec only{&header, sizeof(header)};
        if (TIERFS_FAULT_CALL("fuse.reply.error", ::writev(descriptor, &only, 1)) < 0 && errno != ENOENT) {
            log::error(system_error(errno, "an error as a reply to the kernel").message + ": the mount ends");
            broken_ = true;
            tell_end();
        }
    }
    errno = code;
}

void Session::tell_end() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(ended_.get(), &one, sizeof(one));
}

ssize_t Session::write_init_reply(int descriptor, const iovec* vector) {
    std::array<std::byte, sizeof(fuse_init_out)> body{};
    std::memcpy(body.data(), vector[1].iov_base, body.size());
    patch_init_reply(body, init_offer_, handlers_.stack_depth,
                     handlers_.clears_set_id_bits ? kInitHandleKillprivV2 : 0);
    std::array<iovec, 2> patched{vector[0], iovec{body.data(), body.size()}};
    ssize_t written = static_cast<ssize_t>(vector[0].iov_len + vector[1].iov_len);
    if (!replaying_) {
        written = TIERFS_FAULT_CALL("fuse.init",
                                    ::writev(descriptor, patched.data(), static_cast<int>(patched.size())));
    }
    const int code = errno;
    if (written >= 0) {
        if (handlers_.record != nullptr) handlers_.record->confirm_init();
        const MutexLock lock(mutex_);
        initialised_ = true;
        initialised_changed_.notify_all();
    }
    errno = code;  // libfuse reads it
    return written;
}

bool Session::wait_until_initialised(std::chrono::milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    MutexLock lock(mutex_);
    while (!initialised_) {
        if (lock.wait_until(initialised_changed_, deadline) == std::cv_status::timeout) return initialised_;
    }
    return true;
}

}  // namespace tierfs
