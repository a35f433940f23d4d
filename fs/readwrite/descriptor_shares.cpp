#include "fs/readwrite/descriptor_shares.hpp"

#include <string>

#include "config/base/log.hpp"

namespace tierfs {

DescriptorShares::Share::~Share() {
    if (!state_) return;
    const MutexLock lock(state_->mutex);
    state_->taken -= count_;
    const auto found = state_->by_user.find(user_);
    if (found == state_->by_user.end()) return;
    found->second -= count_;
    if (found->second != 0) return;
    state_->by_user.erase(found);
    state_->told.erase(user_);
}

std::optional<DescriptorShares::Share> DescriptorShares::take(std::uint32_t user, std::size_t count) {
    std::size_t has = 0;
    {
        const MutexLock lock(state_->mutex);
        const auto found = state_->by_user.find(user);
        has = found == state_->by_user.end() ? 0 : found->second;
        const auto others = state_->taken - has;
        const auto share = others < most_ ? (most_ - others) / 2 : 0;
        if (user == 0 || has + count <= share) {
            state_->taken += count;
            state_->by_user[user] += count;
            return Share(state_, user, count);
        }
        if (!state_->told.insert(user).second) return std::nullopt;
    }
    log::warning("user " + std::to_string(user) + " has files and directories open on this mount that take " +
                 std::to_string(has) +
                 " descriptors, half of what others leave: more are refused (ENFILE). A higher RLIMIT_NOFILE "
                 "(LimitNOFILE= of the service) leaves more");
    return std::nullopt;
}

}  // namespace tierfs
