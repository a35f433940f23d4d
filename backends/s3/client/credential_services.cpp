// Services that give credentials: STS, the container's, the instance's.
#include <algorithm>
#include <thread>

#include "backends/http/retry.hpp"
#include "backends/http/url.hpp"
#include "backends/s3/client/credential_chain.hpp"
#include "backends/s3/client/xml.hpp"

namespace tierfs::s3 {
namespace {

constexpr std::size_t kReplyLimit = 64U << 10;
constexpr unsigned kAttempts = 3;

std::string trimmed(std::string text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
        text.pop_back();
    return text;
}

/// A token in clear text may only go to this machine and its link.
bool may_be_asked_plainly(const http::Url& url) {
    return url.host == "localhost" || url.host == "[::1]" || url.host == "[fd00:ec2::23]" ||
           (url.is_address() && (url.host.starts_with("127.") || url.host.starts_with("169.254.")));
}

}  // namespace

Result<http::Response> CredentialChain::fetch(const http::Request& request, std::chrono::milliseconds timeout,
                                              unsigned attempts, const std::string& what) {
    std::string why;
    for (unsigned attempt = 0; attempt < attempts && !stopping_; ++attempt) {
        if (attempt > 0) std::this_thread::sleep_for(http::backoff(attempt, 0.5));
        auto copy = request;
        copy.deadline = http::Clock::now() + timeout;
        copy.connect_timeout = timeout;
        copy.body_limit = kReplyLimit;
        copy.skip_admission = true;
        auto response = engine_.fetch(std::move(copy));
        if (response.failure == http::Failure::none && response.status == 200) return response;
        if (response.failure != http::Failure::none) {
            why = response.detail;
        } else {
            const auto error = parse_error(response.body);
            why = std::to_string(response.status) + (error.code.empty() ? "" : " " + error.code + ": ") +
                  error.message;
        }
        if (!http::worth_repeating(response) && response.failure != http::Failure::deadline) break;
    }
    if (stopping_) return fail(ECANCELED, "stopped");
    return fail(EACCES, what + ": " + why);
}

std::string CredentialChain::sts_endpoint() const {
    const auto section = files_.profile(profile_);
    for (const char* name : {"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"}) {
        if (auto url = env(name); !url.empty()) return url;
    }
    for (const char* key : {"services.sts.endpoint_url", "endpoint_url"}) {
        if (const auto found = section.find(key); found != section.end()) return found->second;
    }
    return "https://sts." + options_.region + ".amazonaws.com" +
           (options_.region.starts_with("cn-") ? ".cn" : "");
}

Result<ResolvedCredentials> CredentialChain::ask_sts(
    const std::vector<std::pair<std::string, std::string>>& form, const Credentials* signer,
    const std::string& what) {
    auto url = http::parse_url(sts_endpoint());
    if (!url) return fail(url.error().within("the endpoint of STS"));
    http::Request request;
    request.method = "POST";
    request.url = url->base() + "/";
    request.body = canonical_query(form);
    request.headers = {{"Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}};
    if (signer != nullptr) {
        SigningInput input{"POST", url->authority(), "/", "", request.headers, sha256_hex(request.body)};
        Signer sts(options_.region, "sts");
        for (auto& header : sts.sign(input, *signer, std::time(nullptr)))
            request.headers.push_back(std::move(header));
    }
    const auto name = what + " at " + url->base();
    const auto response = fetch(request, options_.service_timeout, kAttempts, name);
    if (!response) return fail(response.error());
    auto found = parse_credentials_xml(response->body);
    if (!found) return fail(found.error().within(name));
    found->source = name;
    return found;
}

Result<ResolvedCredentials> CredentialChain::assume_with_web_identity(const std::string& role,
                                                                      const std::string& token_file,
                                                                      const std::string& session) {
    auto token = read_small_file(token_file);
    if (!token) return fail(token.error().within("web identity token"));
    return ask_sts({{"Action", "AssumeRoleWithWebIdentity"},
                    {"Version", "2011-06-15"},
                    {"RoleArn", role},
                    {"RoleSessionName", session.empty() ? "tierfs" : session},
                    {"WebIdentityToken", trimmed(std::move(*token))}},
                   nullptr, "web identity: AssumeRoleWithWebIdentity of " + role);
}

Result<ResolvedCredentials> CredentialChain::assume_role(const IniSection& section, const Credentials& base) {
    const auto value = [&](const char* key) {
        const auto found = section.find(key);
        return found == section.end() ? std::string() : found->second;
    };
    const auto session = value("role_session_name");
    std::vector<std::pair<std::string, std::string>> form{
        {"Action", "AssumeRole"},
        {"Version", "2011-06-15"},
        {"RoleArn", value("role_arn")},
        {"RoleSessionName", session.empty() ? "tierfs" : session}};
    if (const auto id = value("external_id"); !id.empty()) form.emplace_back("ExternalId", id);
    if (const auto seconds = value("duration_seconds"); !seconds.empty())
        form.emplace_back("DurationSeconds", seconds);
    return ask_sts(form, &base, "AssumeRole of " + value("role_arn"));
}

Found CredentialChain::from_container() {
    const auto relative = env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const auto full = env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if (relative.empty() && full.empty()) {
        note("container (AWS_CONTAINER_CREDENTIALS_RELATIVE_URI and _FULL_URI are not set)");
        return std::nullopt;
    }
    const auto url = http::parse_url(relative.empty() ? full : options_.default_container + relative);
    if (!url) return fail(url.error().within("container credentials"));
    if (!url->tls && !may_be_asked_plainly(*url))
        return fail(
            EACCES,
            "AWS_CONTAINER_CREDENTIALS_FULL_URI: http:// is allowed to this machine and its link only, "
            "not to " +
                url->host);
    auto token = env("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    if (const auto file = env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); !file.empty()) {
        auto text = read_small_file(file);
        if (!text) return fail(text.error().within("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"));
        token = trimmed(std::move(*text));
    }
    if (!fits_in_header(token)) return fail(EACCES, "the container's authorization token holds a line break");
    http::Request request;
    request.url = url->base() + url->path + (url->query.empty() ? "" : "?" + url->query);
    request.ignore_proxy = true;
    if (!token.empty()) request.headers.emplace_back("Authorization", token);
    const std::string what = "container credentials at " + url->base();
    const auto response = fetch(request, options_.service_timeout, kAttempts, what);
    if (!response) return fail(response.error());
    auto found = parse_credentials_json(response->body);
    if (!found) return fail(found.error().within(what));
    found->source = what;
    return std::move(*found);
}

Found CredentialChain::from_instance() {
    if (env("AWS_EC2_METADATA_DISABLED") == "true") {
        note("instance metadata (AWS_EC2_METADATA_DISABLED is true)");
        return std::nullopt;
    }
    const auto configured = env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const auto url = http::parse_url(configured.empty() ? options_.default_imds : configured);
    if (!url) return fail(url.error().within("AWS_EC2_METADATA_SERVICE_ENDPOINT"));
    const std::string what = "instance metadata at " + url->base();
    const auto ask = [&](const char* method, const std::string& path, const http::Header& header) {
        http::Request request;
        request.method = method;
        request.url = url->base() + path;
        request.headers = {header};
        request.ignore_proxy = true;
        return fetch(request, options_.imds_timeout, 2, what);
    };
    const std::string folder = "/latest/meta-data/iam/security-credentials/";
    const auto token = ask("PUT", "/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds", "21600"});
    // The last place: whatever goes wrong means that there are no credentials here.
    const auto give_up = [&](const std::string& why) -> Found {
        note(why);
        return std::nullopt;
    };
    if (!token) return give_up(token.error().message);
    if (!fits_in_header(token->body)) return give_up(what + ": the token holds a line break");
    const http::Header proof{"X-aws-ec2-metadata-token", token->body};
    const auto roles = ask("GET", folder, proof);
    if (!roles) return give_up(roles.error().message + " (is a role attached to the instance?)");
    const auto role = roles->body.substr(0, roles->body.find('\n'));
    const auto reply = ask("GET", folder + http::percent_encode(trimmed(role)), proof);
    if (!reply) return give_up(reply.error().message);
    auto found = parse_credentials_json(reply->body);
    if (!found) return give_up(found.error().within(what).message);
    found->source = what;
    return std::move(*found);
}

}  // namespace tierfs::s3
