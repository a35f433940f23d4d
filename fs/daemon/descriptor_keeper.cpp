#include "fs/daemon/descriptor_keeper.hpp"

#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "config/base/fault_point.hpp"

namespace tierfs {

namespace {

constexpr int kEnd = -1;

/// What carries one descriptor beside a message.
struct Envelope {
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
};

/// The number that was asked for, so that an answer which somebody else did not wait for is known as such.
struct Answer {
    int number = kEnd;
    int code = 0;  ///< errno
};

/// `descriptor` -1: only the answer.
bool send_answer(int line, Answer answer, int descriptor) {
    iovec part{&answer, sizeof(answer)};
    Envelope envelope;
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
        message.msg_control = envelope.control.data();
        message.msg_controllen = envelope.control.size();
        auto* const header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        std::memcpy(CMSG_DATA(header), &descriptor, sizeof(descriptor));
    }
    return ::sendmsg(line, &message, MSG_NOSIGNAL) == sizeof(answer);
}

/// The life of the keeper. It has the caller's memory as it was, and none of its threads: system calls only.
[[noreturn]] void keep(int line) {
    ::prctl(PR_SET_NAME, "tierfs-keeper");
    for (;;) {
        int number = kEnd;
        const auto got = ::recv(line, &number, sizeof(number), 0);
        if (got < 0 && errno == EINTR) continue;
        if (got != sizeof(number) || number == kEnd) ::_exit(0);
        if (!send_answer(line, {number, 0}, number))
            send_answer(line, {number, errno != 0 ? errno : EBADF}, -1);
    }
}

}  // namespace

Result<void> start_descriptor_keeper(const std::function<bool(int line)>& hand_over) {
    std::array<int, 2> ends{};
    if (TIERFS_FAULT_CALL("keeper.line",
                          ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data())) != 0)
        return fail(system_error(errno, "a line to the keeper of descriptors"));
    FileDescriptor line(ends[0]), kept(ends[1]);
    // Before there is a keeper: in its own table the line would never end.
    if (!hand_over(line.get())) return fail(EPIPE, "nobody takes the line to the keeper of descriptors");
    line.reset();
    const auto child = TIERFS_FAULT_CALL(
        "keeper.start",
        ::syscall(SYS_clone, static_cast<unsigned long>(CLONE_FILES | SIGCHLD), 0UL, 0UL, 0UL, 0UL));
    if (child == 0) keep(kept.get());
    if (child < 0) return fail(system_error(errno, "the keeper of descriptors"));
    kept.release();  // it stays in the table: the keeper's end
    return {};
}

Result<FileDescriptor> ask_descriptor_keeper(const FileDescriptor& line, int number) {
    if (::send(line.get(), &number, sizeof(number), MSG_NOSIGNAL) != sizeof(number))
        return fail(system_error(errno, "asking for a descriptor"));
    for (;;) {
        Answer answer;
        iovec part{&answer, sizeof(answer)};
        Envelope envelope;
        msghdr message{};
        message.msg_iov = &part;
        message.msg_iovlen = 1;
        message.msg_control = envelope.control.data();
        message.msg_controllen = envelope.control.size();
        const auto got = ::recvmsg(line.get(), &message, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR) continue;
        if (got != sizeof(answer)) return fail(EPIPE, "the keeper of descriptors has gone");
        FileDescriptor descriptor;
        if (const auto* const header = CMSG_FIRSTHDR(&message); header != nullptr) {
            int taken = -1;
            std::memcpy(&taken, CMSG_DATA(header), sizeof(taken));
            descriptor.reset(taken);
        }
        if (answer.number != number) continue;  // asked for by a daemon that died before it came
        if (!descriptor) return fail(answer.code != 0 ? answer.code : EMFILE, "a descriptor was not kept");
        return descriptor;
    }
}

bool end_descriptor_keeper(FileDescriptor line, std::chrono::milliseconds patience) {
    if (!line) return true;
    const int word = kEnd;
    if (::send(line.get(), &word, sizeof(word), MSG_NOSIGNAL) != sizeof(word)) return true;
    const auto end = std::chrono::steady_clock::now() + patience;
    for (;;) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
        pollfd wanted{line.get(), 0, 0};
        if (::poll(&wanted, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) > 0) return true;
        if (left.count() <= 0) return false;
    }
}

}  // namespace tierfs
