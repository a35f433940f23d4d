#include "fs/daemon/live_takeover.hpp"

#include <cerrno>
#include <chrono>
#include <string>

#include "config/base/log.hpp"
#include "fs/daemon/descriptor_keeper.hpp"

namespace tierfs {

namespace {

constexpr auto kClosingPatience = std::chrono::seconds(5);  // for a keeper that closes many files

}  // namespace

// One that dies here, at whatever step, leaves a record that speaks of the daemon before or of itself, and that one's
// keeper: the old keeper ends after the record has changed hands.
Result<KeptFiles> take_files_over(LiveRecord& record, KeeperLines lines, Channel& supervisor) {
    const auto now = record.generation() & 1U;
    KeptFiles kept;
    for (const auto& open : record.opens()) {
        auto file = ask_descriptor_keeper(lines.at(now), open.descriptor);
        if (!file) return fail(file.error().within("taking open files over"));
        record.set_next_descriptor(open.slot, file->get());
        kept.emplace_back(open, std::move(*file));
    }
    // The one before that was told to end, perhaps by one who died before.
    if (!end_descriptor_keeper(std::move(lines.at(1 - now)), kClosingPatience))
        return fail(ETIMEDOUT, "what an earlier daemon had open is not closed");
    const auto next = std::to_string(record.generation() + 1);
    const auto started =
        start_descriptor_keeper([&](int line) { return supervisor.send(Message::Kind::keeper, next, line); });
    if (!started) return fail(started.error());
    record.next_generation();
    // From here on the files are open in this process and its keeper alone.
    if (!end_descriptor_keeper(std::move(lines.at(now)), kClosingPatience))
        log::error("what the daemon before had open is not closed");
    return kept;
}

}  // namespace tierfs
