// The places where credentials are looked for, one after another. Internal to backends/s3/client.
#pragma once

#include "backends/s3/client/credentials.hpp"

namespace tierfs::s3 {

/// Nothing: this place is not configured. An error: it is, and does not work; the walk ends there.
using Found = Result<std::optional<ResolvedCredentials>>;

/// One walk through the chain. Not thread-safe; everything blocks, at most for the times of the options.
class CredentialChain {
  public:
    CredentialChain(const CredentialOptions& options, http::Engine& engine,
                    const std::atomic<bool>& stopping);

    Result<ResolvedCredentials> resolve();

  private:
    // credential_chain.cpp
    Found from_environment();
    Found from_web_identity();
    Found from_profile();
    Result<ResolvedCredentials> from_section(const std::string& name, unsigned depth);
    Result<ResolvedCredentials> assume_role_of(const std::string& name, const IniSection& section,
                                               unsigned depth);
    Result<ResolvedCredentials> base_of_role(const std::string& name, const IniSection& section,
                                             unsigned depth);
    Result<ResolvedCredentials> from_process(const std::string& name, const std::string& command);

    // credential_services.cpp
    Result<ResolvedCredentials> assume_with_web_identity(const std::string& role,
                                                         const std::string& token_file,
                                                         const std::string& session);
    Result<ResolvedCredentials> assume_role(const IniSection& section, const Credentials& base);
    Result<ResolvedCredentials> ask_sts(const std::vector<std::pair<std::string, std::string>>& form,
                                        const Credentials* signer, const std::string& what);
    [[nodiscard]] std::string sts_endpoint() const;
    Found from_container();
    Found from_instance();
    /// Up to `attempts` times; EACCES with the reason if no 200 came.
    Result<http::Response> fetch(const http::Request& request, std::chrono::milliseconds timeout,
                                 unsigned attempts, const std::string& what);

    void note(std::string text) { notes_.push_back(std::move(text)); }
    [[nodiscard]] std::string env(const std::string& name) const {
        return variable(options_.environment, name);
    }

    const CredentialOptions& options_;
    http::Engine& engine_;
    const std::atomic<bool>& stopping_;
    const ProfileFiles files_;
    const std::string profile_;
    std::vector<std::string> notes_;  ///< what was looked at in vain
};

/// The JSON of containers, instances ("Token") and credential_process ("SessionToken").
Result<ResolvedCredentials> parse_credentials_json(const std::string& text);
/// The XML of STS.
Result<ResolvedCredentials> parse_credentials_xml(std::string_view text);

/// Words of a command line as a POSIX shell splits them, without any other of its meanings. EINVAL for an
/// open quote.
Result<std::vector<std::string>> split_words(const std::string& line);

/// Standard output of a program that is run without a shell, of at most 64 KiB. ETIMEDOUT and EIO; the
/// program and its children are killed at the end of `timeout`.
Result<std::string> run_program(const std::vector<std::string>& words, const Environment& environment,
                                std::chrono::milliseconds timeout, const std::atomic<bool>& stopping);

}  // namespace tierfs::s3
