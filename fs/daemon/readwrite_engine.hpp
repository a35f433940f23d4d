// The engine of writable mounts.
#pragma once

#include <memory>
#include <string>

#include "fs/daemon/engine.hpp"
#include "fs/daemon/live_takeover.hpp"
#include "fs/metadata/namespace.hpp"
#include "fs/readonly/profile.hpp"
#include "fs/readwrite/live_operations.hpp"
#include "fs/session/backing_ids.hpp"
#include "fs/session/connection_record.hpp"
#include "tiering/store/store.hpp"

namespace tierfs {

/// All that it is given must outlive it; see Engine.
class ReadwriteEngine final : public Engine {
  public:
    /// `directory`: the source, where it is a directory of this machine, without symbolic links; else empty.
    /// `mount_device`: "MAJOR:MINOR". `records.live` null: no daemon takes over. Errors: LiveOperations::open.
    struct Records {
        ConnectionRecord& connection;
        LiveRecord* live;
        KeptFiles kept;  ///< open files of the daemon before
    };
    static Result<std::unique_ptr<Engine>> open(Origin& origin, Namespace& names, Store& store,
                                                const Settings& settings, Records records,
                                                std::string directory, std::string mount_device);

    [[nodiscard]] SessionHandlers handlers() override;
    [[nodiscard]] Session::Threads threads() const override;
    [[nodiscard]] bool blocks() const override { return true; }
    [[nodiscard]] std::string against_passthrough() const override;
    [[nodiscard]] std::vector<std::string> folders_passed_through() const override { return {directory_}; }
    void allow_passthrough(Session& session, std::string against) override;
    [[nodiscard]] Trace& trace() override { return operations_->trace(); }
    void add_status(StatusInputs& in) override;
    void tick() override {
        operations_->files().passthrough().tick();
        operations_->origin().tick();
    }
    bool release_waiters(std::chrono::milliseconds patience) override {
        return operations_->locks().stop(patience);
    }

  private:
    ReadwriteEngine(Namespace& names, const Settings& settings, ConnectionRecord& record,
                    std::string directory, std::unique_ptr<LiveOperations> operations)
        : names_(names),
          settings_(settings),
          directory_(std::move(directory)),
          record_(record),
          profile_(settings, &record),
          operations_(std::move(operations)) {}

    Namespace& names_;
    const Settings& settings_;
    const std::string directory_;
    ConnectionRecord& record_;
    MountProfile profile_;  ///< for the status alone
    std::unique_ptr<KernelBackingIds> backing_ids_;
    const std::unique_ptr<LiveOperations> operations_;
};

}  // namespace tierfs
