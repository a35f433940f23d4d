#include "backends/http/transfer.hpp"

#include <curl/curl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "backends/http/header_line.hpp"
#include "config/base/fault_point.hpp"
#include "config/base/text.hpp"

namespace tierfs::http {
namespace {

constexpr std::size_t kHeaderLimit = 64U << 10;
constexpr long kReceiveBuffer = 128L << 10;
constexpr long kSendBuffer = 512L << 10;
constexpr std::size_t kSmallUpload = 64U << 10;

static_assert(std::is_same_v<curl_off_t, std::int64_t>, "the type in on_transfer_info");

Failure failure_of(CURLcode code, std::string_view detail) {
    switch (code) {
        case CURLE_OK:
            return Failure::none;
        case CURLE_COULDNT_RESOLVE_HOST:
        case CURLE_COULDNT_RESOLVE_PROXY:
        case CURLE_COULDNT_CONNECT:
        case CURLE_OPERATION_TIMEDOUT:  // only connecting has a time limit in libcurl here
            return Failure::connect;
        case CURLE_SEND_ERROR:
        case CURLE_RECV_ERROR:
        case CURLE_GOT_NOTHING:
        case CURLE_OUT_OF_MEMORY:
            return Failure::reset;
        case CURLE_PARTIAL_FILE:
            return Failure::truncated;
        case CURLE_WRITE_ERROR:
            return Failure::too_large;
        case CURLE_SSL_CONNECT_ERROR:
            // A handshake cut by the network may work next time; one that the peers disagree on will not.
            // libcurl 8 leaves it to OpenSSL to say that the connection has ended.
            return detail.find("SSL routines") != std::string_view::npos &&
                           detail.find("unexpected eof") == std::string_view::npos
                       ? Failure::tls
                       : Failure::connect;
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_CERTPROBLEM:
        case CURLE_SSL_CIPHER:
        case CURLE_SSL_ISSUER_ERROR:
            return Failure::tls;
        default:
            return Failure::protocol;
    }
}

/// What a fault point does: the peer is gone in the middle.
[[maybe_unused]] void cut_connection(CURL* easy) {
    curl_socket_t socket = CURL_SOCKET_BAD;
    curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &socket);
    if (socket != CURL_SOCKET_BAD) ::shutdown(socket, SHUT_RDWR);
}

}  // namespace

Transfer::~Transfer() {
    if (header_list_ != nullptr) curl_slist_free_all(static_cast<curl_slist*>(header_list_));
}

const std::string* Transfer::bad_header() const {
    for (const auto& [name, value] : request_.headers) {
        if (has_control(name) || has_control(value)) return &name;
    }
    return nullptr;
}

void Transfer::prepare(void* easy, const WireOptions& options) {
    easy_ = easy;
    last_progress_ = Clock::now();
    curl_slist* list = nullptr;
    for (const auto& [name, value] : request_.headers) {
        // "Name;" is how libcurl is told to send a header without a value.
        const std::string line = value.empty() ? name + ";" : name + ": " + value;
        list = curl_slist_append(list, line.c_str());
    }
    list = curl_slist_append(list, "Expect:");
    list = curl_slist_append(list, "Accept:");
    header_list_ = list;

    curl_easy_setopt(easy, CURLOPT_PRIVATE, this);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error_.data());
    curl_easy_setopt(easy, CURLOPT_URL, request_.url.c_str());
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);  // "a/../b" is a key like any other
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "tierfs/" TIERFS_VERSION);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, kReceiveBuffer);
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, static_cast<long>(options.idle_age.count()));
    curl_easy_setopt(easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);  // a cancelled look-up must not hold the reactor
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, request_.fresh_connection ? 1L : 0L);
    // After a failure the name is asked for anew: the server may have moved.
    if (request_.fresh_connection) curl_easy_setopt(easy, CURLOPT_DNS_CACHE_TIMEOUT, 0L);
    if (!options.ca_bundle.empty()) curl_easy_setopt(easy, CURLOPT_CAINFO, options.ca_bundle.c_str());
    if (request_.ignore_proxy) curl_easy_setopt(easy, CURLOPT_PROXY, "");
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(request_.deadline - last_progress_);
    const auto connect = std::clamp(request_.connect_timeout, std::chrono::milliseconds(1),
                                    std::max(left, std::chrono::milliseconds(1)));
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(connect.count()));
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Transfer::on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, this);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Transfer::on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, &Transfer::on_transfer_info);
    curl_easy_setopt(easy, CURLOPT_XFERINFODATA, this);
    // Only what is sent needs it: what is received reports itself.
    curl_easy_setopt(easy, CURLOPT_NOPROGRESS, request_.upload.empty() && !request_.source ? 1L : 0L);
    set_method();
    if (request_.watch) request_.watch->started(last_progress_);
}

void Transfer::set_method() {
    auto* easy = static_cast<CURL*>(easy_);
    if (request_.method == "HEAD") {
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
        return;
    }
    if (request_.method == "GET" || request_.method == "DELETE") {
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
        if (request_.method == "DELETE") curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE");
        return;
    }
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    const auto body = request_.upload.empty() ? std::as_bytes(std::span(request_.body)) : request_.upload;
    const std::uint64_t size = request_.source ? request_.source->size() : body.size();
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(size));
    if (request_.source) {
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, &Transfer::on_send);
        curl_easy_setopt(easy, CURLOPT_READDATA, this);
        curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, &Transfer::on_rewind);
        curl_easy_setopt(easy, CURLOPT_SEEKDATA, this);
    } else {
        // Not copied: it stays where it is until the completion.
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, reinterpret_cast<const char*>(body.data()));
    }
    if (size > kSmallUpload) curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, kSendBuffer);
    if (request_.method != "POST") curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
}

std::size_t Transfer::on_send(char* data, std::size_t size, std::size_t count, void* self) {
    auto* transfer = static_cast<Transfer*>(self);
    auto& source = *transfer->request_.source;
    const auto piece = static_cast<std::size_t>(
        std::min<std::uint64_t>(size * count, source.size() - transfer->from_source_));
    if (piece == 0) return 0;
    if (!source.read(transfer->from_source_, std::as_writable_bytes(std::span(data, piece))))
        return CURL_READFUNC_ABORT;
    transfer->from_source_ += piece;
    return piece;
}

int Transfer::on_rewind(void* self, std::int64_t offset, int origin) {
    auto* transfer = static_cast<Transfer*>(self);
    if (origin != SEEK_SET || offset < 0 ||
        static_cast<std::uint64_t>(offset) > transfer->request_.source->size())
        return CURL_SEEKFUNC_FAIL;
    transfer->from_source_ = static_cast<std::uint64_t>(offset);
    return CURL_SEEKFUNC_OK;
}

std::size_t Transfer::on_header(char* data, std::size_t size, std::size_t count, void* self) {
    auto* transfer = static_cast<Transfer*>(self);
    transfer->last_progress_ = Clock::now();
    transfer->header_bytes_ += size * count;
    if (TIERFS_FAULT("http.header") != 0) cut_connection(transfer->easy_);
    if (transfer->header_bytes_ > kHeaderLimit) return 0;
    const std::string_view line(data, size * count);
    take_header_line(transfer->response_, line);
    if (line == "\r\n" || line == "\n") transfer->head_is_here();
    return size * count;
}

void Transfer::head_is_here() {
    // Behind a reply of another length than was asked for there may be more: it would be taken for the next
    // reply.
    const bool wanted = response_.status == 200 || response_.status == 206;
    const auto length = response_.header("content-length");
    if (wanted && !length.empty() && !request_.destination.empty() &&
        length != std::to_string(request_.destination.size()))
        curl_easy_setopt(easy_, CURLOPT_FORBID_REUSE, 1L);
}

std::size_t Transfer::on_body(char* data, std::size_t size, std::size_t count, void* self) {
    auto* transfer = static_cast<Transfer*>(self);
    transfer->last_progress_ = Clock::now();
    if (TIERFS_FAULT("http.body") != 0) cut_connection(transfer->easy_);
    return transfer->take_body({data, size * count}) ? size * count : 0;
}

int Transfer::on_transfer_info(void* self, std::int64_t /*total_down*/, std::int64_t /*down*/,
                               std::int64_t /*total_up*/, std::int64_t up) {
    auto* transfer = static_cast<Transfer*>(self);
    if (up != transfer->sent_) transfer->last_progress_ = Clock::now();
    transfer->sent_ = up;
    return 0;
}

bool Transfer::take_body(std::string_view data) {
    const bool wanted = response_.status == 200 || response_.status == 206;
    const bool direct = wanted && !request_.destination.empty();
    if (wanted && response_.received == 0 && request_.watch && !request_.watch->takes_body()) {
        superseded_ = true;
        return false;
    }
    const std::size_t limit = direct ? request_.destination.size() : request_.body_limit;
    if (data.size() > limit - response_.received) return false;
    if (direct) {
        std::memcpy(request_.destination.data() + response_.received, data.data(), data.size());
    } else {
        response_.body.append(data);
    }
    response_.received += data.size();
    return true;
}

void Transfer::conclude(int code) {
    long connects = 1;
    curl_easy_getinfo(easy_, CURLINFO_NUM_CONNECTS, &connects);
    response_.reused_connection = connects == 0;
    if (TIERFS_FAULT("http.end") != 0) code = CURLE_RECV_ERROR;
    if (code == CURLE_OK) return;
    const auto curl_code = static_cast<CURLcode>(code);
    // What never got as far as a connection has no share in one that was used before.
    if (curl_code == CURLE_URL_MALFORMAT || curl_code == CURLE_FAILED_INIT)
        response_.reused_connection = false;
    const std::string_view said(error_.data());
    response_.detail = said.empty() ? std::string(curl_easy_strerror(curl_code)) : std::string(said);
    response_.failure = superseded_ ? Failure::superseded : failure_of(curl_code, response_.detail);
    if (response_.failure == Failure::too_large)
        response_.detail = "the reply is longer than what was asked for";
}

void Transfer::fail(Failure failure, std::string detail) {
    response_.failure = failure;
    response_.detail = std::move(detail);
    const bool has_begun = last_progress_ != Clock::time_point{};
    if (has_begun)
        response_.silence =
            std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - last_progress_);
}

void Transfer::complete() {
    auto done = std::move(done_);
    done_ = nullptr;
    if (done) done(std::move(response_));
}

}  // namespace tierfs::http
