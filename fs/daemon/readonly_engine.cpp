#include "fs/daemon/readonly_engine.hpp"

#include <algorithm>
#include <utility>

#include "config/base/log.hpp"

namespace tierfs {

bool ReadonlyEngine::checks_acls(Origin& origin) const {
    if (takes_over_) return record_.checks_acls();
    if (settings_.metadata_acl == "false") return false;
    const auto acls = origin.acls();
    if (!acls) {
        log::warning(
            "access control lists do not count until the next mount: the source does not say whether it has some: " +
            acls.error().message);
        return false;
    }
    const bool checks = *acls == Acls::used || (*acls == Acls::possible && settings_.metadata_acl == "true");
    if (checks) record_.set_checks_acls();
    return checks;
}

Session::Threads ReadonlyEngine::threads() const {
    constexpr std::uint64_t kMemoryOfThread = 2 << 20, kMost = 256;  // of memory.limit
    const unsigned least = Session::default_threads();
    return {least, static_cast<unsigned>(
                       std::clamp<std::uint64_t>(settings_.memory_limit / kMemoryOfThread, least, kMost))};
}

SessionHandlers ReadonlyEngine::handlers() {
    SessionHandlers handlers{&Operations::table(), &operations_, &Operations::at_once};
    handlers.record = &record_;
    return handlers;
}

std::string ReadonlyEngine::against_passthrough() const {
    if (settings_.nvme_path.empty()) return "there is no NVMe tier (nvme.path)";
    if (settings_.verify == "always") return "verify=always";
    if (settings_.profile == Profile::small) return "profile=small: the kernel asks for no open";
    return {};
}

std::vector<std::string> ReadonlyEngine::folders_passed_through() const {
    return split_paths(settings_.nvme_path);
}

void ReadonlyEngine::allow_passthrough(Session& session, std::string against) {
    if (against.empty() && !session.passes_through()) {
        against = "the kernel does not offer it: Linux 6.9 or later does";
    }
    auto& files = operations_.open_files();
    if (against.empty() || takes_over_) {  // what is passed through already is to be given up one day
        backing_ids_ = std::make_unique<KernelBackingIds>(session.device());
        files.allow(*backing_ids_);
    }
    if (!against.empty()) files.forbid(std::move(against));
    if (!takes_over_) return;
    files.take_over([this](NodeId node, std::uint64_t bytes) -> std::shared_ptr<const void> {
        if (nvme_ == nullptr) return nullptr;
        const auto object = names_.object(node);
        return nvme_->hold(object ? (*object)->content : ContentId{}, bytes);
    });
}

void ReadonlyEngine::add_status(StatusInputs& in) {
    in.profile = operations_.profile().status(names_.file_sizes(), operations_.open_files().passed_through());
    in.passthrough = operations_.open_files().status();
}

}  // namespace tierfs
