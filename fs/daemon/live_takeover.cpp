#include "fs/daemon/live_takeover.hpp"

#include <cerrno>
#include <chrono>
#include <string>

#include "fs/daemon/descriptor_keeper.hpp"

namespace tierfs {

namespace {

constexpr auto kClosingPatience = std::chrono::seconds(5);  // for a keeper that closes many files

}  // namespace

// One that dies here, at whatever step, leaves a record that speaks of the daemon before or of itself, and that one's
// keeper: the old keeper ends after the record has changed hands.
Result<KeptFiles> take_files_over(LiveRecord& record, KeeperLines lines, Channel& supervisor) {
    FileDescriptor before = std::move(lines.at(record.generation() & 1U));
    for (auto& line : lines) line.reset();
    KeptFiles kept;
    for (const auto& open : record.opens()) {
        auto file = ask_descriptor_keeper(before, open.descriptor);
        if (!file) return fail(file.error().within("taking open files over"));
        record.set_next_descriptor(open.slot, file->get());
        kept.emplace_back(open, std::move(*file));
    }
    auto line = start_descriptor_keeper();
    if (!line) return fail(std::move(line.error()));
    if (!supervisor.send(Message::Kind::keeper, std::to_string(record.generation() + 1), line->get()))
        return fail(EPIPE, "the supervisor has gone");
    line->reset();
    record.next_generation();
    if (!end_descriptor_keeper(std::move(before), kClosingPatience))
        return fail(ETIMEDOUT, "what the daemon before had open is not closed");
    return kept;
}

}  // namespace tierfs
