#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <numeric>
#include <utility>

#include "config/base/file_descriptor.hpp"
#include "fs/observe/trace/trace.hpp"

namespace tierfs {

std::shared_ptr<TracedRead> TracedRead::begin(Trace& trace, std::shared_ptr<const ObjectRef> object,
                                              pid_t asker, std::uint32_t uid, std::uint64_t offset) {
    if (!trace.is_on()) return nullptr;
    std::shared_ptr<TracedRead> read(new TracedRead(trace));
    read->event_.time = std::chrono::system_clock::now();
    read->event_.reader = look_up_reader(asker, uid);
    read->event_.object = std::move(object);
    read->event_.offset = offset;
    return read;
}

void TracedRead::answered(const Result<ReadReply>& reply) {
    event_.took = std::chrono::duration_cast<std::chrono::microseconds>(Trace::Clock::now() - since_);
    if (reply) {
        event_.length = std::accumulate(reply->pieces.begin(), reply->pieces.end(), std::uint64_t{0},
                                        [](auto sum, const auto piece) { return sum + piece.size(); });
        event_.nvme_bytes = reply->nvme_bytes;
        event_.origin_bytes = reply->origin_bytes;
    } else {
        event_.error = reply.error().code;
    }
    trace_.add(event_);
}

TraceReader parse_reader(std::string_view status) {
    constexpr std::string_view kName = "Name:\t", kProcess = "Tgid:\t";
    TraceReader reader;
    while (!status.empty()) {
        const auto end = std::min(status.find('\n'), status.size());
        const auto line = status.substr(0, end);
        if (line.starts_with(kName) && reader.command.empty()) {
            reader.command = line.substr(kName.size());
        } else if (line.starts_with(kProcess)) {
            const auto number = line.substr(kProcess.size());
            std::from_chars(number.data(), number.data() + number.size(), reader.pid);
        }
        status.remove_prefix(std::min(end + 1, status.size()));
    }
    return reader;
}

TraceReader look_up_reader(pid_t thread, std::uint32_t uid) {
    TraceReader reader;
    if (thread > 0) {
        const auto path = "/proc/" + std::to_string(thread) + "/status";
        const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        std::array<char, 512> text{};  // both lines are among the first
        const auto got = file ? ::read(file.get(), text.data(), text.size()) : -1;
        if (got > 0) reader = parse_reader({text.data(), static_cast<std::size_t>(got)});
        if (reader.pid == 0) reader.pid = thread;
    }
    reader.uid = uid;
    return reader;
}

}  // namespace tierfs
