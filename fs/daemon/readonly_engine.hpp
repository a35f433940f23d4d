// The engine of read-only mounts.
#pragma once

#include <memory>

#include "fs/daemon/engine.hpp"
#include "fs/metadata/namespace.hpp"
#include "fs/readonly/operations.hpp"
#include "fs/session/backing_ids.hpp"
#include "fs/session/connection_record.hpp"
#include "tiering/nvme/nvme_tier.hpp"
#include "tiering/store/store.hpp"

namespace tierfs {

/// All that it is given must outlive it; see Engine.
class ReadonlyEngine final : public Engine {
  public:
    /// `nvme`: null, there is none. `takes_over`: another daemon served the connection before.
    ReadonlyEngine(Origin& origin, Namespace& names, Store& store, NvmeTier* nvme, const Settings& settings,
                   ConnectionRecord& record, bool takes_over)
        : names_(names),
          nvme_(nvme),
          settings_(settings),
          record_(record),
          takes_over_(takes_over),
          operations_(names, store, settings, &record, checks_acls(origin)) {}

    [[nodiscard]] SessionHandlers handlers() override;
    [[nodiscard]] Session::Threads threads() const override;
    [[nodiscard]] bool blocks() const override { return false; }
    [[nodiscard]] std::string against_passthrough() const override;
    [[nodiscard]] std::vector<std::string> folders_passed_through() const override;
    void allow_passthrough(Session& session, std::string against) override;
    [[nodiscard]] Trace& trace() override { return operations_.trace(); }
    void add_status(StatusInputs& in) override;
    void tick() override {}
    bool release_waiters(std::chrono::milliseconds /*patience*/) override { return true; }

  private:
    /// As it was negotiated, where another daemon did that: the kernel must not be shown a mask in the place of the
    /// group's permissions when it does not look at the list.
    [[nodiscard]] bool checks_acls(Origin& origin) const;

    Namespace& names_;
    NvmeTier* const nvme_;
    const Settings& settings_;
    ConnectionRecord& record_;
    const bool takes_over_;
    std::unique_ptr<KernelBackingIds> backing_ids_;
    Operations operations_;
};

}  // namespace tierfs
