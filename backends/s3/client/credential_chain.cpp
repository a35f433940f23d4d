#include "backends/s3/client/credential_chain.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "backends/s3/client/xml.hpp"

namespace tierfs::s3 {
namespace {

constexpr unsigned kLongestRoleChain = 8;

std::string value(const IniSection& section, const std::string& key) {
    const auto found = section.find(key);
    return found == section.end() ? std::string() : found->second;
}

std::string text_member(const nlohmann::json& object, const char* name) {
    const auto found = object.find(name);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// "9999-12-31T23:59:59Z" is how some say "never", and more than WallClock's nanoseconds can hold: the latest
/// time that they can stands for it, 1970 for what was before.
WallClock::time_point expiry_at(std::int64_t seconds) {
    constexpr auto kLatest = std::chrono::floor<std::chrono::seconds>(WallClock::duration::max()).count();
    return WallClock::time_point(std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, kLatest)));
}

Result<void> check_credentials(const Credentials& found) {
    if (found.access_key.empty() || found.secret_key.empty())
        return fail(EACCES, "the reply lacks AccessKeyId or SecretAccessKey");
    if (!fits_in_header(found.access_key) || !fits_in_header(found.session_token))
        return fail(EACCES, "the reply's credentials hold a line break");
    return {};
}

}  // namespace

Result<ResolvedCredentials> resolve_credentials(const CredentialOptions& options, http::Engine& engine,
                                                const std::atomic<bool>& stopping) {
    return CredentialChain(options, engine, stopping).resolve();
}

CredentialChain::CredentialChain(const CredentialOptions& options, http::Engine& engine,
                                 const std::atomic<bool>& stopping)
    : options_(options),
      engine_(engine),
      stopping_(stopping),
      files_(ProfileFiles::load(options.environment)),
      profile_(profile_name(options.profile, options.environment)) {}

Result<ResolvedCredentials> CredentialChain::resolve() {
    using Place = Found (CredentialChain::*)();
    for (const Place place : {&CredentialChain::from_environment, &CredentialChain::from_web_identity,
                              &CredentialChain::from_profile, &CredentialChain::from_container,
                              &CredentialChain::from_instance}) {
        if (stopping_) return fail(ECANCELED, "stopped");
        auto found = (this->*place)();
        if (!found) return fail(EACCES, "no S3 credentials: " + found.error().message);
        if (*found) return std::move(**found);
    }
    std::string text = "no S3 credentials found; looked at: ";
    for (std::size_t i = 0; i < notes_.size(); ++i) text += (i > 0 ? "; " : "") + notes_[i];
    return fail(EACCES, text + ". For a public bucket set s3.anonymous");
}

Found CredentialChain::from_environment() {
    if (!options_.profile.empty()) {
        note("environment (not used, since s3.profile is set)");
        return std::nullopt;
    }
    ResolvedCredentials found;
    found.credentials = {env("AWS_ACCESS_KEY_ID"), env("AWS_SECRET_ACCESS_KEY"), env("AWS_SESSION_TOKEN")};
    found.source = "the environment";
    if (found.credentials.access_key.empty()) {
        note("environment (AWS_ACCESS_KEY_ID is not set)");
        return std::nullopt;
    }
    if (found.credentials.secret_key.empty())
        return fail(EACCES, "AWS_ACCESS_KEY_ID is set, AWS_SECRET_ACCESS_KEY is not");
    return found;
}

Found CredentialChain::from_web_identity() {
    const auto file = env("AWS_WEB_IDENTITY_TOKEN_FILE"), role = env("AWS_ROLE_ARN");
    if (!options_.profile.empty() || file.empty() || role.empty()) {
        note("web identity (AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN are not both set)");
        return std::nullopt;
    }
    auto found = assume_with_web_identity(role, file, env("AWS_ROLE_SESSION_NAME"));
    if (!found) return fail(std::move(found.error()));
    return std::move(*found);
}

Found CredentialChain::from_profile() {
    const bool named = profile_ != "default";
    const auto section = files_.profile(profile_);
    const std::string files = files_.config_path + " and " + files_.credentials_path;
    if (section.empty()) {
        const std::string why = "profile '" + profile_ + "' in " + files + " (not there" +
                                (files_.trouble.empty() ? "" : "; " + files_.trouble) + ")";
        if (named) return fail(EACCES, why);
        note(why);
        return std::nullopt;
    }
    bool gives = false;
    for (const char* key : {"aws_access_key_id", "role_arn", "credential_process", "sso_session",
                            "sso_start_url", "login_session"})
        gives = gives || section.contains(key);
    if (!gives) {
        note("profile '" + profile_ + "' in " + files + " (it names no credentials)");
        return std::nullopt;
    }
    auto found = from_section(profile_, 0);
    if (!found) return fail(std::move(found.error()));
    return std::move(*found);
}

Result<ResolvedCredentials> CredentialChain::from_section(const std::string& name, unsigned depth) {
    const auto section = files_.profile(name);
    const std::string what = "profile '" + name + "'";
    if (depth > kLongestRoleChain) return fail(EACCES, what + ": source_profile leads in a circle");
    if (section.empty()) return fail(EACCES, what + " is in none of the shared files");
    if (section.contains("role_arn")) return assume_role_of(name, section, depth);
    if (section.contains("aws_access_key_id")) {
        ResolvedCredentials found;
        found.credentials = {value(section, "aws_access_key_id"), value(section, "aws_secret_access_key"),
                             value(section, "aws_session_token")};
        found.source = what;
        if (found.credentials.access_key.empty() || found.credentials.secret_key.empty())
            return fail(EACCES, what + " has only one of aws_access_key_id and aws_secret_access_key");
        return found;
    }
    if (section.contains("credential_process"))
        return from_process(name, value(section, "credential_process"));
    return fail(EACCES, what +
                            " holds no key, role or credential_process; for SSO use credential_process = "
                            "aws configure export-credentials --profile NAME --format process");
}

Result<ResolvedCredentials> CredentialChain::assume_role_of(const std::string& name,
                                                            const IniSection& section, unsigned depth) {
    if (section.contains("mfa_serial"))
        return fail(EACCES,
                    "profile '" + name + "': a role with mfa_serial cannot be assumed without a person");
    if (section.contains("web_identity_token_file"))
        return assume_with_web_identity(value(section, "role_arn"), value(section, "web_identity_token_file"),
                                        value(section, "role_session_name"));
    const auto base = base_of_role(name, section, depth);
    if (!base) return fail(base.error().within("profile '" + name + "'"));
    auto found = assume_role(section, base->credentials);
    if (!found) return fail(found.error().within("profile '" + name + "'"));
    return found;
}

Result<ResolvedCredentials> CredentialChain::base_of_role(const std::string& name, const IniSection& section,
                                                          unsigned depth) {
    if (const auto source = value(section, "source_profile"); !source.empty()) {
        if (source != name) return from_section(source, depth + 1);
        // A profile may be its own source: then its keys assume its role.
        ResolvedCredentials own;
        own.credentials = {value(section, "aws_access_key_id"), value(section, "aws_secret_access_key"),
                           value(section, "aws_session_token")};
        if (own.credentials.access_key.empty()) return fail(EACCES, "source_profile leads in a circle");
        return own;
    }
    const auto source = value(section, "credential_source");
    Found found;
    if (source == "Environment") {
        found = from_environment();
    } else if (source == "EcsContainer") {
        found = from_container();
    } else if (source == "Ec2InstanceMetadata") {
        found = from_instance();
    } else {
        return fail(EACCES, "role_arn needs source_profile or credential_source");
    }
    if (!found) return fail(std::move(found.error()));
    if (!*found) return fail(EACCES, "credential_source = " + source + " has no credentials");
    return std::move(**found);
}

Result<ResolvedCredentials> CredentialChain::from_process(const std::string& name,
                                                          const std::string& command) {
    const std::string what = "profile '" + name + "': credential_process";
    const auto words = split_words(command);
    if (!words) return fail(words.error().within(what));
    const auto output = run_program(*words, options_.environment, options_.process_timeout, stopping_);
    if (!output) return fail(output.error().within(what));
    auto found = parse_credentials_json(*output);
    if (!found) return fail(found.error().within(what));
    found->source = what;
    return found;
}

Result<ResolvedCredentials> parse_credentials_json(const std::string& text) {
    const auto object = nlohmann::json::parse(text, nullptr, false);
    // The text is not quoted in errors: it may hold a secret.
    if (!object.is_object()) return fail(EACCES, "the reply is no JSON object");
    ResolvedCredentials found;
    found.credentials = {text_member(object, "AccessKeyId"), text_member(object, "SecretAccessKey"),
                         text_member(object, "SessionToken")};
    if (found.credentials.session_token.empty())
        found.credentials.session_token = text_member(object, "Token");
    if (auto good = check_credentials(found.credentials); !good) return fail(std::move(good.error()));
    if (const auto expiration = text_member(object, "Expiration"); !expiration.empty()) {
        const auto seconds = parse_iso_time(expiration);
        if (!seconds) return fail(EACCES, "the reply's Expiration is no time");
        found.expiry = expiry_at(*seconds);
    }
    return found;
}

Result<ResolvedCredentials> parse_credentials_xml(std::string_view text) {
    ResolvedCredentials found;
    found.credentials = {find_text(text, "AccessKeyId"), find_text(text, "SecretAccessKey"),
                         find_text(text, "SessionToken")};
    if (auto good = check_credentials(found.credentials); !good) return fail(std::move(good.error()));
    if (const auto seconds = parse_iso_time(find_text(text, "Expiration")))
        found.expiry = expiry_at(*seconds);
    return found;
}

}  // namespace tierfs::s3
