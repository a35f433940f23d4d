#include "backends/nfs/connection.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "config/base/delivery.hpp"
#include "config/base/log.hpp"

namespace tierfs::nfs {
namespace {

constexpr std::chrono::milliseconds kLook{50};  ///< how exact deadlines are
constexpr std::chrono::milliseconds kFirstBackoff{50};
constexpr std::size_t kMostOutput = 2 << 20;  ///< further calls wait until what is encoded has been sent
constexpr unsigned kMostNonsense = 5;
constexpr std::chrono::milliseconds kRest{500};

/// Procedures that move no bytes of files are of names, where somebody waits for them.
http::Lane lane_of(const Call& call) {
    const bool moves_bytes = !call.destination.empty() || !call.payload.empty();
    return moves_bytes || call.priority != Priority::demand ? http::lane_of(call.priority)
                                                            : http::Lane::names;
}
constexpr std::uint32_t kLastFragment = 0x80000000U;

std::uint32_t first_xid() {
    return std::random_device{}();
}

std::uint32_t status_of(const Call& call, const Reply& reply) {
    return call.procedure == kRead ? reply.read.status : XdrReader(reply.body).u32();
}

}  // namespace

void Counters::sent(const Procedure& procedure) {
    if (procedure == kRead) {
        ++get;
    } else if (procedure == kGetattr || procedure == kLookup) {
        ++head;
    } else if (procedure == kReaddirplus || procedure == kReaddir) {
        ++list;
    } else if (procedure == kWrite || procedure == kCreate) {
        ++put;
    } else if (procedure == kRemove || procedure == kRmdir) {
        ++remove;
    } else {
        ++other;
    }
}

Connection::Connection(ConnectionOptions options, Counters& counters)
    : options_(std::move(options)),
      counters_(counters),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      queue_(options_.calls),
      next_xid_(first_xid()),
      thread_([this] { run(); }) {}

Connection::~Connection() {
    stop();
}

void Connection::set_addresses(std::vector<Address> addresses) {
    {
        const MutexLock lock(mutex_);
        new_addresses_ = std::move(addresses);
    }
    ::eventfd_write(wake_.get(), 1);
}

void Connection::start(Call call) {
    MutexLock lock(mutex_);
    if (stopped_) {
        lock.unlock();
        return call.done(fail(ECANCELED, "the NFS client has been stopped"));
    }
    ++load_;
    inbox_.push_back(std::move(call));
    if (inbox_.size() > 1) return;  // the thread has been woken for the first
    lock.unlock();
    ::eventfd_write(wake_.get(), 1);
}

void Connection::stop() {
    {
        const MutexLock lock(mutex_);
        stopped_ = true;
    }
    ::eventfd_write(wake_.get(), 1);
    const MutexLock lock(joining_);
    if (thread_.joinable()) thread_.join();
}

std::optional<ReplySink::Expected> Connection::expected(std::uint32_t xid) {
    const auto found = in_flight_.find(xid);
    if (found == in_flight_.end()) return std::nullopt;
    return Expected{found->second.call.procedure == kRead, found->second.call.destination};
}

void Connection::replied(std::uint32_t xid, const Reply& reply) {
    const auto found = in_flight_.find(xid);
    if (found == in_flight_.end()) return;
    Waiting waiting = std::move(found->second);
    in_flight_.erase(found);
    queue_.finished();
    backoff_ = {};
    if (reply.acceptance.code != 0)
        return finish(std::move(waiting), fail(reply.acceptance.code, std::string(reply.acceptance.what)));
    if (status_of(waiting.call, reply) == kJukebox) {
        resting_.emplace_back(Clock::now() + kRest, std::move(waiting));
        return;
    }
    Reply answer = reply;
    answer.sent = waiting.sent;
    finish(std::move(waiting), answer);
}

void Connection::end_rest() {
    const auto now = Clock::now();
    while (!resting_.empty() &&
           (resting_.front().first <= now || resting_.front().second.call.deadline <= now)) {
        const auto lane = lane_of(resting_.front().second.call);
        queue_.push(lane, std::move(resting_.front().second));
        resting_.pop_front();
    }
}

void Connection::finish(Waiting waiting, Result<Reply> result) {
    --load_;
    if (!result) ++counters_.errors;
    waiting.call.done(std::move(result));
}

/// False when it is time to end.
bool Connection::take_inbox() {
    std::vector<Call> taken;
    bool stopped = false;
    {
        const MutexLock lock(mutex_);
        taken.swap(inbox_);
        stopped = stopped_;
        if (!new_addresses_.empty()) {
            // Mounted again: where one of them answers already, it stays.
            const bool is_known =
                std::ranges::equal(given_, new_addresses_, {}, &Address::text, &Address::text);
            given_ = std::move(new_addresses_);
            new_addresses_.clear();
            if (!is_known) at_ = 0;
            address_ = given_[at_];
        }
    }
    for (auto& call : taken) {
        if (call.rests && !stopped) {
            resting_.emplace_back(Clock::now() + kRest, Waiting{std::move(call)});
            continue;
        }
        const auto lane = lane_of(call);
        queue_.push(lane, Waiting{std::move(call)});
    }
    return !stopped;
}

void Connection::run() {
    const Delivery delivery;
    while (take_inbox()) {
        const auto now = Clock::now();
        if (now >= next_look_) {
            end_rest();
            expire();
        }
        if (!socket_ && address_ && queue_.waiting() > 0 && now >= next_attempt_) begin();
        if (connected_) fill_output();
        if (connected_) flush();
        std::array<pollfd, 2> wanted{pollfd{wake_.get(), POLLIN, 0}, pollfd{socket_.get(), 0, 0}};
        if (socket_ && (!connected_ || output_sent_ < output_.size())) wanted[1].events |= POLLOUT;
        if (connected_) wanted[1].events |= POLLIN;
        if (::poll(wanted.data(), wanted.size(), poll_timeout()) < 0) continue;
        if (wanted[0].revents != 0) {
            eventfd_t ignored = 0;
            static_cast<void>(::eventfd_read(wake_.get(), &ignored));
        }
        if (wanted[1].revents == 0) continue;
        if (!connected_) {
            finish_connect();
        } else if ((wanted[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
            receive();
        }
    }
    fail_all(Error{ECANCELED, "the NFS client has been stopped"});
}

int Connection::poll_timeout() const {
    return queue_.waiting() + in_flight_.size() + resting_.size() == 0 ? -1 : static_cast<int>(kLook.count());
}

void Connection::begin() {
    auto made = begin_connect(*address_);
    if (!made) return lose(made.error(), false);
    socket_ = std::move(*made);
    last_heard_ = Clock::now();
}

void Connection::finish_connect() {
    if (const int code = connect_outcome(socket_.get()); code != 0)
        return lose(system_error(code, "connecting to " + address_->text()), false);
    connected_ = true;
    stream_.emplace(static_cast<ReplySink&>(*this), options_.most_data);
    last_heard_ = Clock::now();
}

void Connection::fill_output() {
    if (output_sent_ == output_.size()) {
        output_.clear();
        output_sent_ = 0;
    }
    while (output_.size() < kMostOutput) {
        auto next = queue_.pop();
        if (!next) return;
        if (in_flight_.empty()) last_heard_ = Clock::now();
        const auto xid = next_xid_++;
        const auto& call = next->call;
        const auto body =
            make_call(xid, call.procedure, call.credential.empty() ? options_.credential : call.credential,
                      call.arguments);
        const std::size_t padding = -call.payload.size() & 3U;
        XdrWriter mark;
        mark.u32(kLastFragment | static_cast<std::uint32_t>(body.size() + call.payload.size() + padding));
        output_ += mark.text();
        output_ += body;
        output_.append(reinterpret_cast<const char*>(call.payload.data()), call.payload.size());
        output_.append(padding, '\0');
        counters_.sent(call.procedure);
        if (next->sent++ > 0) ++counters_.retries;
        in_flight_.emplace(xid, std::move(*next));
    }
}

void Connection::flush() {
    while (output_sent_ < output_.size()) {
        const auto sent = ::send(socket_.get(), output_.data() + output_sent_, output_.size() - output_sent_,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK) return;
            return lose(system_error(errno, "sending to " + address_->text()), false);
        }
        output_sent_ += static_cast<std::size_t>(sent);
    }
}

void Connection::receive() {
    for (;;) {
        auto parts = stream_->space();
        msghdr header{};
        header.msg_iov = parts[0].iov_len == 0 ? &parts[1] : parts.data();
        header.msg_iovlen = parts[0].iov_len == 0 ? 1 : 2;
        const auto room = parts[0].iov_len + parts[1].iov_len;
        const auto got = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT);
        if (got < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN || errno == EWOULDBLOCK) return;
            return lose(system_error(errno, "receiving from " + address_->text()), false);
        }
        if (got == 0) return lose(Error{ECONNRESET, address_->text() + " has closed the connection"}, false);
        last_heard_ = Clock::now();
        counters_.reachability.answered();
        const auto taken = stream_->received(static_cast<std::size_t>(got));
        if (!taken)
            return lose(taken.error().within("the reply of " + address_->text() + " makes no sense"), true);
        if (static_cast<std::size_t>(got) < room) return;
    }
}

void Connection::try_next_address() {
    if (given_.size() < 2) return;
    at_ = (at_ + 1) % given_.size();
    address_ = given_[at_];
}

void Connection::lose(const Error& why, bool is_nonsense) {
    // One that was never taken up, or on which nothing comes.
    const bool is_away = !connected_ || why.code == ETIMEDOUT;
    if (is_away) try_next_address();
    if (is_away || !in_flight_.empty())
        counters_.reachability.failed("nfs: " + why.message, is_away ? Reachability::Failure::certain
                                                                     : Reachability::Failure::doubtful);
    socket_.reset();
    connected_ = false;
    stream_.reset();
    output_.clear();
    output_sent_ = 0;
    last_error_ = why;
    auto lost = std::move(in_flight_);
    in_flight_.clear();
    const auto now = Clock::now();
    // A connection that has served is made anew at once: the server may have closed it for being idle.
    next_attempt_ = now + backoff_;
    backoff_ = std::min(std::max(backoff_ * 2, kFirstBackoff), options_.slowest_reconnect);
    if (!lost.empty())
        log::warning("nfs: " + why.message + "; " + std::to_string(lost.size()) + " calls are asked again");
    for (auto& [xid, waiting] : lost) {
        queue_.finished();
        if (is_nonsense && ++waiting.nonsense >= kMostNonsense) {
            finish(std::move(waiting), fail(EIO, why.message));
        } else if (!waiting.call.repeatable) {
            finish(std::move(waiting), fail(ECONNRESET, why.message));
        } else {
            const auto lane = lane_of(waiting.call);
            queue_.push(lane, std::move(waiting));
        }
    }
}

void Connection::expire() {
    const auto now = Clock::now();
    next_look_ = now + kLook;
    auto overdue = queue_.take_if([&](const Waiting& waiting) { return waiting.call.deadline <= now; });
    for (auto call = in_flight_.begin(); call != in_flight_.end();) {
        if (call->second.call.deadline > now) {
            ++call;
            continue;
        }
        if (stream_) stream_->abandon(call->first);
        overdue.push_back(std::move(call->second));
        call = in_flight_.erase(call);
        queue_.finished();
    }
    const auto place = address_ ? address_->text() : std::string("the NFS server");
    for (auto& waiting : overdue) {
        const auto& last = last_error_.message;
        finish(std::move(waiting),
               fail(ETIMEDOUT, place + " did not answer before origin.deadline" +
                                   (connected_ || last.empty() ? "" : " (" + last + ")")));
    }
    const bool waits = socket_ && (!connected_ || !in_flight_.empty());
    if (waits && now - last_heard_ > options_.silence)
        lose(Error{ETIMEDOUT, place + (connected_ ? " is silent" : " does not take up the connection")},
             false);
}

void Connection::fail_all(const Error& error) {
    socket_.reset();
    connected_ = false;
    auto waiting = queue_.take_if([](const Waiting&) { return true; });
    for (auto& [xid, call] : in_flight_) waiting.push_back(std::move(call));
    in_flight_.clear();
    for (auto& [when, call] : resting_) waiting.push_back(std::move(call));
    resting_.clear();
    for (auto& one : waiting) finish(std::move(one), fail(error));
}

}  // namespace tierfs::nfs
