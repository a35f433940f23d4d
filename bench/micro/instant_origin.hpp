// bench/micro: what single parts of tierfs cost (Google Benchmark). `ninja micro`, then build/release/micro.
#pragma once

#include <algorithm>
#include <string>

#include "backends/origin/origin.hpp"

namespace tierfs::micro {

/// Any object is there and reads as zeros, at once, on the caller's thread. Thread-safe.
class InstantOrigin final : public Origin {
  public:
    [[nodiscard]] std::string identity() const override { return "micro:"; }
    [[nodiscard]] std::string kind() const override { return "micro"; }
    Result<void> check() override { return {}; }
    Result<Attributes> stat(const std::string& path) override { return fail(ENOENT, path); }
    Result<ListPage> list(const std::string& path, const std::string& /*token*/) override {
        return fail(ENOENT, path);
    }
    Result<std::string> read_link(const std::string& path) override { return fail(EINVAL, path); }
    void read(OriginRead request) override {
        std::fill(request.destination.begin(), request.destination.end(), std::byte{0});
        request.done({});
    }
    [[nodiscard]] OriginStats stats() const override { return {}; }
    [[nodiscard]] std::uint64_t stats_worth_listing(const std::string&) const override { return 0; }
    void stop() override {}
};

}  // namespace tierfs::micro
