// A bucket that can be written to, behind a scripted server.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "config/base/mutex.hpp"
#include "tests/unit/backends/http/scripted_server.hpp"

namespace tierfs::test {

/// Objects and multipart uploads of one bucket "bkt", as S3 keeps them; every body must fit its Content-MD5.
/// Use it as a ScriptedServer's handler by `bucket.handler()`; what set_fault() gave is asked first and may
/// answer instead.
class FakeBucket {
  public:
    struct Object {
        std::string body, etag;  ///< with quotes
        std::map<std::string, std::string> headers;
    };

    [[nodiscard]] ScriptedServer::Handler handler() {
        return [this](const ReceivedRequest& request) { return serve(request); };
    }

    using Fault = std::function<std::optional<Reply>(const ReceivedRequest&)>;
    void set_fault(Fault fault) {
        const MutexLock lock(mutex_);
        fault_ = fault ? std::make_shared<Fault>(std::move(fault)) : nullptr;
    }

    std::map<std::string, Object> objects() {
        const MutexLock lock(mutex_);
        return objects_;
    }
    void put(const std::string& key, const std::string& body);
    [[nodiscard]] std::size_t uploads() {
        const MutexLock lock(mutex_);
        return uploads_.size();
    }
    /// Requests that sent a part.
    [[nodiscard]] unsigned parts_received() {
        const MutexLock lock(mutex_);
        return parts_received_;
    }

  private:
    struct Upload {
        std::string key;
        std::map<unsigned, std::string> parts;  ///< bodies
        std::map<std::string, std::string> headers;
    };
    using Query = std::map<std::string, std::string>;

    Reply serve(const ReceivedRequest& request);
    Reply put_object(const ReceivedRequest& request, const std::string& key) TIERFS_REQUIRES(mutex_);
    Reply put_part(const ReceivedRequest& request, Query& query) TIERFS_REQUIRES(mutex_);
    Reply complete(const ReceivedRequest& request, Upload& upload, const std::string& id)
        TIERFS_REQUIRES(mutex_);
    Reply list_parts(const Upload& upload, Query& query) TIERFS_REQUIRES(mutex_);
    Reply list_uploads(Query& query) TIERFS_REQUIRES(mutex_);
    Reply list(Query& query) TIERFS_REQUIRES(mutex_);
    Reply get(const ReceivedRequest& request, const std::string& key) TIERFS_REQUIRES(mutex_);
    Reply post(const ReceivedRequest& request, const std::string& key, Query& query) TIERFS_REQUIRES(mutex_);
    Reply remove(const std::string& key, Query& query) TIERFS_REQUIRES(mutex_);

    Mutex mutex_;
    std::shared_ptr<Fault> fault_ TIERFS_GUARDED_BY(mutex_);
    std::map<std::string, Object> objects_ TIERFS_GUARDED_BY(mutex_);
    std::map<std::string, Upload> uploads_ TIERFS_GUARDED_BY(mutex_);
    unsigned next_id_ TIERFS_GUARDED_BY(mutex_) = 0, parts_received_ TIERFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace tierfs::test
