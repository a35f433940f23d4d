#include "backends/nfs/half_made.hpp"

#include <array>
#include <chrono>
#include <cstring>

#include "config/base/log.hpp"

namespace tierfs::nfs {
namespace {

constexpr unsigned kMostLooks = 20;            ///< Call::rests lies between two
constexpr std::chrono::minutes kPatience{10};  ///< with a server that is away

std::uint32_t swapped(std::uint32_t word) {
    return word >> 24U | (word >> 8U & 0xff00U) | (word << 8U & 0xff0000U) | word << 24U;
}

}  // namespace

bool HalfMade::is_of(const std::string& verifier, const struct stat& status) {
    std::array<std::uint32_t, 2> words{};
    if (verifier.size() != sizeof(words)) return false;
    std::memcpy(words.data(), verifier.data(), sizeof(words));
    constexpr std::uint32_t kKept = 0x7fffffff;  // some clear the sign
    const auto access = static_cast<std::uint32_t>(status.st_atim.tv_sec) & kKept;
    const auto modification = static_cast<std::uint32_t>(status.st_mtim.tv_sec) & kKept;
    for (const bool swap : {false, true}) {
        const auto first = (swap ? swapped(words[0]) : words[0]) & kKept;
        const auto second = (swap ? swapped(words[1]) : words[1]) & kKept;
        if ((access == first && modification == second) || (access == second && modification == first))
            return true;
    }
    return false;
}

void HalfMade::finish(File file) {
    look(std::make_shared<const File>(std::move(file)), 1);
}

void HalfMade::look(const std::shared_ptr<const File>& file, unsigned attempt) {
    Call call;
    call.procedure = kLookup;
    call.arguments = lookup_arguments(file->directory, file->name);
    call.deadline = Clock::now() + kPatience;
    call.rests = true;
    call.done = [this, file, attempt](Result<Reply> reply) { found(file, attempt, reply); };
    client_.start(std::move(call));
}

void HalfMade::found(const std::shared_ptr<const File>& file, unsigned attempt, const Result<Reply>& reply) {
    if (!reply) return;
    XdrReader in(reply->body);
    const auto there = read_lookup_stat(in);
    if (!in.ok()) return;
    // The server may have the CREATE before it still.
    if (there.status == kNoEntry && attempt < kMostLooks) return look(file, attempt + 1);
    if (there.status != kOk || !there.attributes || !is_of(file->verifier, *there.attributes)) return;
    Call call;
    call.procedure = kSetattr;
    call.arguments = setattr_arguments(there.handle, file->wanted);
    call.credential = file->credential;
    call.deadline = Clock::now() + kPatience;
    call.done = [file](const Result<Reply>& set) {
        const auto what = "nfs: '" + file->name + "', whose CREATE was not answered in time, ";
        if (!set) return log::warning(what + "keeps strange times: " + set.error().message);
        const auto status = XdrReader(set->body).u32();
        if (status != kOk) return log::warning(what + "keeps strange times: " + status_name(status));
        log::info(what + "has been put right");
    };
    client_.start(std::move(call));
}

}  // namespace tierfs::nfs
