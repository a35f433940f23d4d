// Files whose exclusive CREATE was not answered in time: what it left behind is put right later.
#pragma once

#include <memory>
#include <string>

#include "backends/nfs/change_messages.hpp"
#include "backends/nfs/client.hpp"

namespace tierfs::nfs {

/// An exclusive CREATE that nobody heard of may have been carried out, or is carried out later. Servers keep
/// its verifier in the times of the file and take no mode (RFC 1813, 3.3.8) until a SETATTR follows, which is
/// then sent here: once the file is seen, and its times say that nobody else has dealt with it. Thread-safe;
/// nothing blocks. `client` must outlive the calls that are under way.
class HalfMade {
  public:
    explicit HalfMade(Client& client) : client_(client) {}

    struct File {
        Handle directory;
        std::string name, verifier;
        SetAttributes wanted;
        std::string credential;  ///< who made it; see Call
    };
    /// Looks for the file a few times, until it is there and right.
    void finish(File file);

    /// Whether the times of a file are those of an exclusive CREATE: its two words, as servers keep them.
    static bool is_of(const std::string& verifier, const struct stat& status);

  private:
    void look(const std::shared_ptr<const File>& file, unsigned attempt);
    void found(const std::shared_ptr<const File>& file, unsigned attempt, const Result<Reply>& reply);

    Client& client_;
};

}  // namespace tierfs::nfs
