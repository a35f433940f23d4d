#include "fs/readonly/profile.hpp"

#include "config/base/log.hpp"

namespace tierfs {

namespace {

bool mostly_small(const FileSizes& known) {
    return known.files >= MountProfile::kFilesToJudge && known.small > known.files / 2;
}

std::string shares(const FileSizes& known) {
    return std::to_string(known.small) + " of " + std::to_string(known.files) +
           " known files are smaller than 1 MiB";
}

}  // namespace

MountProfile::MountProfile(const Settings& settings, ConnectionRecord* record)
    : record_(record),
      automatic_(settings.profile == Profile::automatic && settings.read_only),
      keeps_listings_(settings.metadata_ttl == kForever),
      small_(settings.profile == Profile::small && settings.read_only) {
    if (automatic_) {
        if (record == nullptr || !record->opens_without_asking()) return;
        small_ = true;
        reason_ = "auto: most files were small when a former daemon judged";
        return;
    }
    reason_ = !settings.read_only ? "read-write mount"
              : small_            ? "asked for with profile=small"
                                  : "asked for with profile=large";
}

bool MountProfile::answers_without_opens(const FileSizes& known, std::uint64_t passed_through) {
    if (is_small()) return true;
    if (!automatic_ || passed_through != 0 || !mostly_small(known)) return false;
    const MutexLock lock(mutex_);
    if (!small_.exchange(true)) {
        if (record_ != nullptr) record_->set_opens_without_asking();
        reason_ = "auto: " + shares(known);
        log::info("profile small from now on: " + shares(known));
    }
    return true;
}

ProfileStatus MountProfile::status(const FileSizes& known, std::uint64_t passed_through) const {
    const MutexLock lock(mutex_);
    if (!reason_.empty()) return {is_small() ? "small" : "large", reason_};
    std::string why = "auto: " + shares(known);
    if (known.files < kFilesToJudge) {
        why += "; " + std::to_string(kFilesToJudge) + " are needed to judge";
    } else if (mostly_small(known)) {
        why += passed_through == 0
                   ? "; the next open makes it small"
                   : "; it waits for the end of " + std::to_string(passed_through) + " passthrough files";
    }
    return {"large", std::move(why)};
}

}  // namespace tierfs
