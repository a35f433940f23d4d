#include "backends/origin/upload_name.hpp"

#include <array>
#include <cstdio>
#include <random>

#include "backends/origin/writable_origin.hpp"
#include "config/base/hex.hpp"

namespace tierfs {
namespace {

constexpr std::string_view kTemporary = ".tierfs-upload-";
constexpr std::size_t kTargetDigits = 16, kRandomDigits = 16;

}  // namespace

SplitPath split_path(const std::string& path) {
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) return {"", path};
    return {path.substr(0, slash), path.substr(slash + 1)};
}

Result<std::string> upload_prefix(const std::string& path) {
    const auto digest = md5_hex(std::as_bytes(std::span(path)));
    if (!digest) return fail(digest.error());
    return std::string(kTemporary) + digest->substr(0, kTargetDigits) + "-";
}

std::string new_upload_name(const std::string& prefix) {
    std::random_device source;
    std::array<char, kRandomDigits + 1> text{};
    std::snprintf(text.data(), text.size(), "%08x%08x", source(), source());
    return prefix + text.data();
}

bool is_upload_name(std::string_view name, std::string_view prefix) {
    return name.starts_with(prefix) && name.size() == prefix.size() + kRandomDigits &&
           !from_hex(name.substr(prefix.size())).empty();
}

}  // namespace tierfs
