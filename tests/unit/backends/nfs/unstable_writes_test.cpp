// Writes to a server that may be started anew before they are durable: a scripted one, over TCP.
#include "backends/nfs/unstable_writes.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <thread>

namespace tierfs::nfs {
namespace unstable_writes_test {

using namespace std::chrono_literals;

/// Answers WRITE and COMMIT, one after the other, and keeps the bytes of one file as a server would: what was
/// not committed goes when it is started anew.
class FakeServer {
  public:
    FakeServer() : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t length = sizeof(address);
        EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
        EXPECT_EQ(::listen(listener_.get(), 4), 0);
        EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
        std::memcpy(&address_.storage, &address, length);
        address_.length = length;
        thread_ = std::thread([this] { run(); });
    }
    ~FakeServer() {
        ::shutdown(listener_.get(), SHUT_RDWR);
        thread_.join();
    }
    FakeServer(const FakeServer&) = delete;
    FakeServer& operator=(const FakeServer&) = delete;

    [[nodiscard]] const Address& address() const { return address_; }

    // What it does.
    std::atomic<std::uint32_t> status_of_writes = kOk;
    std::atomic<std::uint32_t> most_of_a_write = 1 << 20;
    std::atomic<int> restarts = 0;  ///< before so many of the next COMMITs

    std::string durable() {
        const MutexLock lock(mutex_);
        return durable_;
    }
    /// (offset, bytes) of each WRITE.
    std::vector<std::pair<std::uint64_t, std::string>> writes() {
        const MutexLock lock(mutex_);
        return writes_;
    }
    unsigned commits() {
        const MutexLock lock(mutex_);
        return commits_;
    }

  private:
    void run() {
        for (;;) {
            const FileDescriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!client) return;
            while (serve(client.get())) {
            }
        }
    }
    static bool receive(int from, std::string& to, std::size_t size) {
        to.resize(size);
        return ::recv(from, to.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size);
    }
    bool serve(int client) {
        std::string mark, call;
        if (!receive(client, mark, 4)) return false;
        const auto size = XdrReader(std::as_bytes(std::span(mark))).u32() & 0x7fffffffU;
        if (!receive(client, call, size)) return false;
        XdrReader in(std::as_bytes(std::span(call)));
        const auto xid = in.u32();
        for (int word = 0; word < 4; ++word) in.u32();
        const auto procedure = in.u32();
        for (int part = 0; part < 2; ++part) {  // credential and verifier
            in.u32();
            in.opaque(400);
        }
        in.opaque(kLongestHandle);
        XdrWriter out;
        for (const std::uint32_t word : {xid, 1U, 0U, 0U, 0U, 0U}) out.u32(word);
        const MutexLock lock(mutex_);
        if (procedure == kWrite.number) {
            write(in, out);
        } else {
            commit(out);
        }
        XdrWriter answer;
        answer.u32(0x80000000U | static_cast<std::uint32_t>(out.text().size()));
        answer.fixed(out.text());
        return ::send(client, answer.text().data(), answer.text().size(), MSG_NOSIGNAL) > 0;
    }
    void write(XdrReader& in, XdrWriter& out) TIERFS_REQUIRES(mutex_) {
        const auto status = status_of_writes.load();
        const auto offset = in.u64();
        const auto count = std::min(in.u32(), most_of_a_write.load());
        EXPECT_EQ(in.u32(), 0U) << "UNSTABLE";
        const auto bytes = in.opaque(1 << 20).substr(0, count);
        writes_.emplace_back(offset, bytes);
        out.u32(status);
        out.u32(0);
        out.u32(0);
        if (status != kOk) return;
        if (written_.size() < offset + count) written_.resize(offset + count, '\0');
        written_.replace(offset, count, bytes);
        out.u32(count);
        out.u32(0);
        out.u64(verifier_);
    }
    void commit(XdrWriter& out) TIERFS_REQUIRES(mutex_) {
        ++commits_;
        if (restarts > 0) {
            --restarts;
            ++verifier_;
            written_ = durable_;
        }
        durable_ = written_;
        for (int word = 0; word < 3; ++word) out.u32(0);
        out.u64(verifier_);
    }

    FileDescriptor listener_;
    Address address_;
    Mutex mutex_;
    std::uint64_t verifier_ TIERFS_GUARDED_BY(mutex_) = 1;
    std::string written_ TIERFS_GUARDED_BY(mutex_), durable_ TIERFS_GUARDED_BY(mutex_);
    std::vector<std::pair<std::uint64_t, std::string>> writes_ TIERFS_GUARDED_BY(mutex_);
    unsigned commits_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::thread thread_;
};

class UnstableWritesTest : public testing::Test {
  protected:
    UnstableWritesTest() {
        client_.set_addresses({server_.address()});
        budget_.add(writes_);
    }
    ~UnstableWritesTest() override { client_.stop(); }

    void write(const std::string& bytes, std::uint64_t offset) {
        writes_->write(std::as_bytes(std::span(bytes)), offset, 1 << 20);
    }

    FakeServer server_;
    Client client_{ConnectionOptions{}, 1};
    WriteBudget budget_{1 << 20};
    std::shared_ptr<UnstableWrites> writes_ =
        std::make_shared<UnstableWrites>(client_, budget_, "handle", 20s);
    std::uint64_t told_ = 0;
};

TEST_F(UnstableWritesTest, WhatIsCommittedIsDurable) {
    write("hello world", 0);
    write("W", 6);
    writes_->settle();
    EXPECT_EQ(server_.durable(), "");
    EXPECT_EQ(writes_->bytes(), 12U) << "kept: the server may lose them";
    writes_->commit();
    EXPECT_EQ(server_.durable(), "hello World");
    EXPECT_EQ(writes_->bytes(), 0U);
    writes_->commit();
    EXPECT_EQ(server_.commits(), 1U) << "nothing is left to commit";
}

TEST_F(UnstableWritesTest, AnotherVerifierMeansWrittenAgainInTheSameOrder) {
    write("aaaa", 0);
    writes_->commit();
    write("bbbb", 2);
    write("cc", 4);
    server_.restarts = 1;
    writes_->commit();
    EXPECT_EQ(server_.durable(), "aabbcc");
    const auto writes = server_.writes();
    ASSERT_EQ(writes.size(), 5U);
    EXPECT_EQ(writes[3].second, "bbbb") << "and not what was durable already";
    EXPECT_EQ(writes[4].second, "cc");
    EXPECT_TRUE(writes_->problem(told_));
    EXPECT_EQ(writes_->bytes(), 0U);
}

TEST_F(UnstableWritesTest, AServerThatIsStartedAnewTwiceMeanwhile) {
    write("twice", 0);
    server_.restarts = 2;
    writes_->commit();
    EXPECT_EQ(server_.durable(), "twice");
    EXPECT_TRUE(writes_->problem(told_));
}

TEST_F(UnstableWritesTest, AServerThatNeverKeepsAnythingIsAnError) {
    write("lost", 0);
    server_.restarts = 1000;
    writes_->commit();
    auto other = std::uint64_t{0};
    EXPECT_EQ(writes_->problem(told_).error().code, EIO);
    EXPECT_TRUE(writes_->problem(told_)) << "told once";
    EXPECT_EQ(writes_->problem(other).error().code, EIO) << "to each open";
    EXPECT_EQ(writes_->bytes(), 0U);
    server_.restarts = 0;
    write("kept", 0);
    writes_->commit();
    EXPECT_TRUE(writes_->problem(told_));
    EXPECT_EQ(server_.durable(), "kept");
}

TEST_F(UnstableWritesTest, WhatTheServerTakesOfAWriteIsFollowedByTheRest) {
    server_.most_of_a_write = 3;
    write("0123456789", 5);
    writes_->commit();
    EXPECT_EQ(server_.durable(), std::string(5, '\0') + "0123456789");
    EXPECT_TRUE(writes_->problem(told_));
}

TEST_F(UnstableWritesTest, ARefusalIsToldOnceAndLaterWritesGoOn) {
    server_.status_of_writes = 28;  // NFS3ERR_NOSPC
    write("no room", 0);
    writes_->commit();
    EXPECT_EQ(writes_->problem(told_).error().code, ENOSPC);
    EXPECT_TRUE(writes_->problem(told_));
    server_.status_of_writes = kOk;
    write("room", 0);
    writes_->commit();
    EXPECT_TRUE(writes_->problem(told_));
    EXPECT_EQ(server_.durable(), "room");
}

TEST_F(UnstableWritesTest, NoMoreThanTheBudgetIsOnItsWay) {
    const std::string block(300'000, 'x');
    for (std::uint64_t i = 0; i < 20; ++i) {
        write(block, i * block.size());
        EXPECT_LE(writes_->bytes(), budget_.limit());
    }
    EXPECT_GT(server_.commits(), 0U) << "committed early: else there were no room";
    writes_->commit();
    EXPECT_EQ(server_.durable().size(), 20 * block.size());
}

}  // namespace unstable_writes_test
}  // namespace tierfs::nfs
