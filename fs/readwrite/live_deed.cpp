#include "fs/readwrite/live_deed.hpp"

#include "fs/session/connection_record.hpp"

namespace tierfs {

LiveDeed::LiveDeed(LiveRecord* record, std::uint64_t unique) {
    if (record == nullptr) return;
    if ((unique & kResent) != 0) deed_ = record->find_deed(unique);
    was_begun_ = deed_ != nullptr;
    if (deed_ == nullptr) deed_ = record->begin_deed(unique);
}

LiveDeed::~LiveDeed() {
    if (deed_ != nullptr) LiveRecord::end_deed(*deed_);
}

bool LiveDeed::was_done() const {
    return was_begun_ && deed_->is_done != 0;
}

bool LiveDeed::made(const PosixAttributes& found, mode_t type, std::uint32_t uid) const {
    return was_begun_ && (found.status.st_mode & S_IFMT) == type && found.status.st_uid == uid &&
           found.born_ns != 0 && found.born_ns >= deed_->begun_ns;
}

bool LiveDeed::concerned(const std::optional<PosixIdentity>& found) const {
    return was_begun_ && deed_->has_identity != 0 && deed_->identity == found;
}

bool LiveDeed::missed(const std::optional<PosixIdentity>& found) const {
    return was_begun_ && deed_->has_identity != 0 && deed_->identity != found;
}

void LiveDeed::concerns(const std::optional<PosixIdentity>& identity) {
    if (deed_ == nullptr || !identity || deed_->has_identity != 0) return;
    deed_->identity = *identity;
    deed_->has_identity.store(1, std::memory_order_release);
}

void LiveDeed::done() {
    if (deed_ != nullptr) deed_->is_done.store(1, std::memory_order_release);
}

}  // namespace tierfs
