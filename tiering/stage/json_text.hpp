// What the manifest and the journal have in common: lines of JSON whose texts may be any bytes, read without
// trust. Internal to tiering/stage/.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "config/result.hpp"

namespace tierfs::stage {

using Json = nlohmann::ordered_json;

/// `digits` lower-case digits.
std::string to_hex(std::uint64_t value, int digits);

/// Sets NAME, or NAME_hex when the text is no UTF-8 (JSON cannot hold it).
void put_text(Json& json, const std::string& name, const std::string& text);

/// Text that can be printed and put into JSON: bytes that are no UTF-8 become "?".
std::string printable(std::string_view text);

/// All of it, through interruptions. The errno of write(2), without a path.
Result<void> write_all(int fd, std::string_view text);

/// Reads members of an object. The first that is absent or of another type is remembered; what is returned
/// for it means nothing.
class Fields {
  public:
    /// `json` is an object and outlives this.
    explicit Fields(const Json& json) : json_(json) {}

    [[nodiscard]] bool has(const std::string& name) const {
        return json_.contains(name) || json_.contains(name + "_hex");
    }
    std::string text(const std::string& name);
    std::uint64_t number(const std::string& name, std::uint64_t most = INT64_MAX);
    std::int64_t signed_number(const std::string& name);
    std::uint64_t hex(const std::string& name, std::size_t digits);
    std::uint64_t hex_of(const Json& value, std::size_t digits, const std::string& name);
    Json array(const std::string& name);

    [[nodiscard]] bool good() const { return problem_.empty(); }
    [[nodiscard]] const std::string& problem() const { return problem_; }

  private:
    void wrong(const std::string& name) {
        if (problem_.empty()) problem_ = "member '" + name + "' is absent or wrong";
    }

    const Json& json_;
    std::string problem_;
};

}  // namespace tierfs::stage
