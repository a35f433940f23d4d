// One attempt on its way: the request, its completion and libcurl's handle. Internal to backends/http.
#pragma once

#include <array>
#include <memory>

#include "backends/http/request.hpp"

namespace tierfs::http {

/// What is the same for all requests of an engine.
struct WireOptions {
    std::string ca_bundle;                   ///< a file; empty: the system's
    std::chrono::seconds idle_age{60};       ///< older idle connections are not used again
    std::chrono::milliseconds stall{10000};  ///< an attempt without a byte for so long is cut
};

/// Belongs to one thread at a time; never moved while libcurl knows it. libcurl's types are void* here, so
/// that its header stays in the .cpp files.
class Transfer {
  public:
    Transfer(Request request, Completion done) : request_(std::move(request)), done_(std::move(done)) {}
    ~Transfer();
    Transfer(const Transfer&) = delete;
    Transfer& operator=(const Transfer&) = delete;

    /// Sets `easy` up for this request.
    void prepare(void* easy, const WireOptions& options);
    /// The name of a header that must not leave: its value, which may be of a server's making, would end it and
    /// begin another, or another request. Null: there is none.
    [[nodiscard]] const std::string* bad_header() const;

    /// What libcurl said at the end (a CURLcode); fills response().
    void conclude(int code);

    /// Ends without a reply from the server.
    void fail(Failure failure, std::string detail);

    /// Nobody needs it any more: see AttemptWatch.
    [[nodiscard]] bool abandoned() const { return request_.watch && request_.watch->abandoned(); }

    /// Calls the completion; once.
    void complete();

    [[nodiscard]] const Request& request() const { return request_; }
    [[nodiscard]] const Response& response() const { return response_; }
    [[nodiscard]] void* easy() const { return easy_; }
    [[nodiscard]] Clock::time_point last_progress() const { return last_progress_; }

  private:
    static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* self);
    static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* self);
    /// Of Request::source.
    static std::size_t on_send(char* data, std::size_t size, std::size_t count, void* self);
    static int on_rewind(void* self, std::int64_t offset, int origin);
    /// libcurl calls it often, whatever happens: what it tells is how much has been sent.
    static int on_transfer_info(void* self, std::int64_t total_down, std::int64_t down, std::int64_t total_up,
                                std::int64_t up);
    void set_method();
    void head_is_here();
    bool take_body(std::string_view data);

    Request request_;
    Completion done_;
    Response response_;
    void* easy_ = nullptr;
    void* header_list_ = nullptr;
    std::size_t header_bytes_ = 0;
    Clock::time_point last_progress_{};
    std::int64_t sent_ = 0;          ///< bytes of the body that the kernel took
    std::uint64_t from_source_ = 0;  ///< bytes of Request::source that libcurl has
    bool superseded_ = false;
    std::array<char, 256> error_{};
};

using TransferPtr = std::unique_ptr<Transfer>;

}  // namespace tierfs::http
