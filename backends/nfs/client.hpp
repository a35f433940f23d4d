// The connections to one NFS server.
#pragma once

#include <memory>
#include <vector>

#include "backends/nfs/connection.hpp"

namespace tierfs::nfs {

/// Gives each call to the connection that has the least to do. Thread-safe.
class Client {
  public:
    Client(const ConnectionOptions& options, unsigned connections);

    /// The connections are spread over them; none empty.
    void set_addresses(const std::vector<Address>& addresses);
    void start(Call call);
    void stop();

    Counters& counters() { return counters_; }
    [[nodiscard]] const Counters& counters() const { return counters_; }

  private:
    Counters counters_;
    std::atomic<unsigned> turn_ = 0;
    std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace tierfs::nfs
