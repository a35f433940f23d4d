// The connections to one NFS server.
#pragma once

#include <memory>
#include <vector>

#include "backends/nfs/squash.hpp"

namespace tierfs::nfs {

/// Gives each call to the connection that has the least to do. Thread-safe.
class Client {
  public:
    /// `is_root`: the connections' credential is root's, which the server may take for nobody (Squash).
    Client(const ConnectionOptions& options, unsigned connections, bool is_root = false);

    /// The connections are spread over them; none empty.
    void set_addresses(const std::vector<Address>& addresses);
    void start(Call call);
    void stop();

    [[nodiscard]] Squash& squash() { return squash_; }

    Counters& counters() { return counters_; }
    [[nodiscard]] const Counters& counters() const { return counters_; }

  private:
    void send(Call call);

    const bool is_root_;
    Counters counters_;
    std::atomic<unsigned> turn_ = 0;
    Squash squash_;
    std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace tierfs::nfs
