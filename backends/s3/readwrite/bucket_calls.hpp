// The requests of a writable mount.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/s3/client/client.hpp"
#include "backends/s3/client/writer.hpp"
#include "backends/s3/client/xml.hpp"
#include "backends/s3/readwrite/body_digest.hpp"
#include "backends/s3/readwrite/file_metadata.hpp"
#include "backends/s3/readwrite/known_names.hpp"
#include "backends/s3/readwrite/local_copies.hpp"

namespace tierfs::s3 {

/// The path of a directory's marker, which all paths in it begin with.
inline std::string marker_of(const std::string& path) {
    return path.empty() ? path : path + "/";
}

/// A range of a local copy as a body. The bytes must not change until it has been sent.
struct Slice {
    std::shared_ptr<LocalCopy> copy;
    std::uint64_t begin = 0, end = 0;
    std::string digest;  ///< of these bytes, as BucketCalls::digest_kind() says; empty: it is made
};

/// Calls that run side by side: count them in, wait until all have ended. The first error counts.
/// Thread-safe.
class Together {
  public:
    /// At most `most` at a time: the next one waits.
    explicit Together(std::size_t most) : most_(most) {}
    ~Together() { (void)wait(); }
    Together(const Together&) = delete;
    Together& operator=(const Together&) = delete;

    /// False: one has failed, do not begin more. EDEADLK: see may_wait_for.
    bool begin() TIERFS_EXCLUDES(mutex_);
    void end(Result<void> result) TIERFS_EXCLUDES(mutex_);
    Result<void> wait() TIERFS_EXCLUDES(mutex_);

  private:
    const std::size_t most_;
    Mutex mutex_;
    std::condition_variable ended_;
    std::size_t running_ TIERFS_GUARDED_BY(mutex_) = 0;
    Result<void> result_ TIERFS_GUARDED_BY(mutex_);
};

/// Paths are relative to the root of the mount; that of a directory's marker ends in '/', and is empty for
/// the root's. Bodies are checked by the server (DigestKind). Calls block, each for at most the deadline of
/// the settings beyond what bytes need on a slow line, but for those with a `done`, which is called exactly
/// once, on any thread, and must not block. Thread-safe. Errors: as Client and WritableOrigin.
class BucketCalls {
  public:
    /// Objects above it are copied in parts: CopyObject takes 5 GiB, and time in one piece.
    static constexpr std::uint64_t kLargestCopy = std::uint64_t{1} << 30U;
    /// The longest key, bytes of UTF-8:
    /// https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html
    static constexpr std::size_t kLongestKey = 1024;

    /// `client` and `writer` must outlive this; both of the same target.
    BucketCalls(Client& client, Writer& writer, Target target, Ownership ownership,
                std::chrono::milliseconds deadline)
        : client_(client),
          writer_(writer),
          target_(std::move(target)),
          ownership_(ownership),
          deadline_(deadline) {}

    [[nodiscard]] const Ownership& ownership() const { return ownership_; }
    [[nodiscard]] std::chrono::milliseconds deadline() const { return deadline_; }
    /// Whether the server is known not to have answered for so long.
    [[nodiscard]] bool is_away(std::chrono::duration<double> least = {}) const {
        return client_.is_away(least);
    }
    [[nodiscard]] std::string key(const std::string& path) const { return target_.prefix + path; }
    [[nodiscard]] bool has_prefix() const { return !target_.prefix.empty(); }
    [[nodiscard]] DigestKind digest_kind() const {
        return target_.endpoint.tls || !client_.signs() ? DigestKind::md5 : DigestKind::sha256;
    }

    /// Whether an object of this bucket has been met whose ETag is not the digest of its bytes (SSE-KMS, SSE-C).
    [[nodiscard]] bool is_sealed() const { return is_sealed_->load(std::memory_order_relaxed); }

    /// EIO for what is no reply to HEAD. `is_marker`: of a directory.
    [[nodiscard]] Result<Facts> facts_of_head(const http::Response& response, bool is_marker) const;
    /// ENOENT: no such object.
    Result<Facts> head(const std::string& path);
    void head(const std::string& path, std::function<void(Result<Facts>)> done);
    /// Fills in FileMetadata::tags of an object that has some: who makes another object of it gives it these.
    void ask_tags(const std::string& path, Facts& facts);
    /// To be called when an object has been made: it gets the tags that the server has not given it.
    void keep_tags(const std::string& path, const FileMetadata& metadata);
    /// A page of the keys that begin with the path; whole keys. Empty only where nothing is left: pages without
    /// a key, which servers may send, are passed over.
    Result<Listing> list(const std::string& path, const std::string& token, unsigned limit, bool delimited);
    /// A page of the server's, which may be empty.
    void list(const std::string& path, const std::string& token, unsigned limit, bool delimited,
              std::function<void(Result<Listing>)> done);
    Result<void> read(const std::string& path, const std::string& version, std::uint64_t offset,
                      std::span<std::byte> destination);
    void read(const std::string& path, const std::string& version, std::uint64_t offset,
              std::span<std::byte> destination, std::function<void(Result<void>)> done);

    /// Return the version. `text` is for small bodies (links; nothing for markers and empty files).
    Result<std::string> put(const std::string& path, const Slice& slice, const FileMetadata& metadata,
                            const PutOptions& condition);
    Result<std::string> put_text(const std::string& path, const std::string& text,
                                 const FileMetadata& metadata, const PutOptions& condition = {});

    Result<Upload> begin(const std::string& path, const FileMetadata& metadata);
    void send_part(const Upload& upload, unsigned number, const Slice& slice,
                   std::function<void(Result<UploadPart>)> done);
    /// [begin, end) of an object of this version, copied by the server.
    void copy_part(const Upload& upload, unsigned number, const std::string& from, const std::string& version,
                   std::uint64_t begin, std::uint64_t end, std::function<void(Result<UploadPart>)> done);
    Result<std::string> complete(const Upload& upload, std::span<const UploadPart> parts,
                                 const PutOptions& condition);
    void abort(const Upload& upload);

    /// By the server; returns the version of what is there then. `metadata`: instead of the old.
    Result<std::string> copy(const std::string& from, const Facts& facts, const std::string& to,
                             const std::optional<FileMetadata>& metadata);
    /// With the metadata that it has. Objects above kLargestCopy are copied before this returns.
    void copy(const std::string& from, const Facts& facts, const std::string& to,
              std::function<void(Result<std::string>)> done);
    /// Nothing there is no error.
    Result<void> remove(const std::string& path);
    void remove(const std::string& path, std::function<void(Result<void>)> done);
    /// Only what has this version: false, something else is there by now, and stays. Between two requests
    /// where the server does not know If-Match for DELETE.
    Result<bool> remove_version(const std::string& path, const std::string& version);

  private:
    void note_sealing(const http::Response& response) const;
    /// Whether what is there is what a request made whose reply was lost: that was of these bytes.
    [[nodiscard]] bool is_ours(const Facts& there, const FileMetadata& metadata, std::uint64_t size,
                               const std::string& md5) const;
    [[nodiscard]] Operation operation(RequestKind kind, const std::string& path) const;
    /// With the digest that the server compares.
    [[nodiscard]] Result<Operation> sending(const std::string& path, const Slice& slice) const;
    [[nodiscard]] std::string copy_source(const std::string& path) const;
    [[nodiscard]] Operation copying(const std::string& from, const Facts& facts, const std::string& to,
                                    const std::optional<FileMetadata>& metadata) const;
    Result<std::string> copy_in_parts(const std::string& from, const Facts& facts, const std::string& to,
                                      const FileMetadata& metadata);
    [[nodiscard]] Operation listing(const std::string& path, const std::string& token, unsigned limit,
                                    bool delimited) const;
    Result<Listing> listed(const Result<http::Response>& response, const std::string& token) const;

    Client& client_;
    Writer& writer_;
    const Target target_;
    const Ownership ownership_;
    const std::chrono::milliseconds deadline_;
    std::shared_ptr<std::atomic<bool>> is_sealed_ =
        std::make_shared<std::atomic<bool>>(false);  ///< of all copies
};

}  // namespace tierfs::s3
