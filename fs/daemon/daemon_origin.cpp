// What a daemon serves: the source, or the source behind its pack.
#include <algorithm>
#include <array>
#include <cstdio>

#include "backends/origin/object.hpp"
#include "config/base/log.hpp"
#include "fs/daemon/daemon.hpp"

namespace tierfs {

namespace {

constexpr std::chrono::milliseconds kLongestBelief = std::chrono::hours(24);  // in a pack that is compared

bool is_damage(const Error& error) {
    return error.code == EIO || error.code == ESTALE;  // of other bytes, or of another length
}

}  // namespace

Result<void> Daemon::open_origin_or_pack() {
    if (settings_.pack.empty()) {
        auto origin = open_origin(settings_);
        if (!origin) return fail(origin.error());
        origin_ = std::move(*origin);
        return {};
    }
    if (!settings_.read_only)
        return fail(EROFS, "a mount with a pack cannot be written to: mount with ro, or without pack");
    std::vector<std::filesystem::path> kept;
    if (takes_over_) {
        if (!scratch_.empty()) kept.push_back(scratch_);
        if (!settings_.index_path.empty()) kept.emplace_back(settings_.index_path);
        for (const auto& path : split_paths(settings_.nvme_path)) kept.emplace_back(path);
    }
    auto packed = PackedOrigin::open(settings_, kept);
    if (!packed && is_damage(packed.error())) return use_source_alone(packed.error());
    if (!packed) return fail(packed.error());
    pack_ = packed->get();
    origin_ = std::move(*packed);
    if (settings_.pack_staleness == "trust") {
        settings_.metadata_ttl = kForever;  // the pack never says anything else
    } else {
        settings_.metadata_ttl = std::min(settings_.metadata_ttl, kLongestBelief);
    }
    return {};
}

// What a pack says can be had from its source, too.
Result<void> Daemon::use_source_alone(const Error& why) {
    log::error("the pack " + settings_.pack + " cannot be used, all comes from the source: " + why.message);
    unusable_pack_.location = settings_.pack;
    unusable_pack_.staleness = settings_.pack_staleness;
    unusable_pack_.last_error = "the pack is not used: " + why.message;
    pack_ = nullptr;
    settings_.metadata_ttl = asked_ttl_;
    auto origin = open_origin(settings_);
    if (!origin) return fail(origin.error());
    origin_ = std::move(*origin);
    return {};
}

Result<void> Daemon::open_pack_index(const std::filesystem::path& folder) {
    if (pack_ == nullptr) return {};
    auto opened = pack_->open_index(folder);
    if (opened) return {};
    if (!is_damage(opened.error()) && opened.error().code != ENOENT) return opened;
    if (auto used = use_source_alone(opened.error()); !used) return used;
    return check_identity();
}

void Daemon::watch_source() {
    if (pack_ == nullptr) return;
    pack_->watch_source([this](const Renewed& renewed) {
        std::vector<Namespace::Renewed> names;
        names.reserve(renewed.names.size());
        for (const auto& [name, same_object] : renewed.names) names.push_back({name, same_object});
        names_->renewed(renewed.directory, names);
    });
}

// The pack and the settings that the names of an index have taken in. S3 knows no owners and modes; changed
// ones must not wait for records to expire, which may be never. (Data has the origin's identity alone.)
std::string Daemon::settings_in_names() const {
    std::string identity;
    // Of a pack that is trusted, answers hold for ever; with `check` they are the source's own.
    if (pack_ != nullptr && settings_.pack_staleness != "check")
        identity += " pack=" + to_string(pack_->manifest().index);
    if (pack_ != nullptr && settings_.pack_staleness == "list") identity += " list";
    // What was known before of names that this mount may change must not be believed after it.
    if (!settings_.read_only) identity += " rw";
    if (origin_->kind() != "s3") return identity;
    std::array<char, 80> owner{};
    std::snprintf(owner.data(), owner.size(), " uid=%u gid=%u file_mode=%o directory_mode=%o",
                  settings_.s3_uid, settings_.s3_gid, settings_.s3_file_mode, settings_.s3_directory_mode);
    return identity + owner.data();
}

// Node ids stand in the index of one source: in another one they would be other files.
Result<void> Daemon::check_identity() {
    const auto identity = [this] {
        return to_string(content_id(origin_->identity() + settings_in_names(), "", ""));
    };
    if (!takes_over_) record_.set_index_identity(identity());
    if (record_.index_identity() == identity()) return {};
    if (pack_ != nullptr) {
        auto used = use_source_alone({EIO, "the daemon before did not use it"});
        if (!used || record_.index_identity() == identity()) return used;
    }
    return fail(ESTALE, "what is mounted now is another source than the mount was made of (" +
                            origin_->identity() + "): unmount and mount again");
}

}  // namespace tierfs
