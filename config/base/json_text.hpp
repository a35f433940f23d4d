// Lines of JSON whose texts may be any bytes, read without trust: JSON is UTF-8, and names of files need not
// be. Manifests, journals and reports are made of them.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "config/base/hex.hpp"
#include "config/base/result.hpp"

namespace tierfs {

using OrderedJson = nlohmann::ordered_json;

/// Sets NAME, or NAME_hex when the text is no UTF-8 (JSON cannot hold it).
void put_text(OrderedJson& json, const std::string& name, const std::string& text);

/// Text that can be printed and put into JSON: bytes that are no UTF-8 become "?".
std::string printable(std::string_view text);

/// All of it, through interruptions. The errno of write(2), without a path.
Result<void> write_all(int fd, std::string_view text);

/// Reads members of an object. The first that is absent or of another type is remembered; what is returned
/// for it means nothing.
class Fields {
  public:
    /// `json` is an object and outlives this.
    explicit Fields(const OrderedJson& json) : json_(json) {}

    [[nodiscard]] bool has(const std::string& name) const {
        return json_.contains(name) || json_.contains(name + "_hex");
    }
    std::string text(const std::string& name);
    std::uint64_t number(const std::string& name, std::uint64_t most = INT64_MAX);
    std::int64_t signed_number(const std::string& name);
    std::uint64_t hex(const std::string& name, std::size_t digits);
    std::uint64_t hex_of(const OrderedJson& value, std::size_t digits, const std::string& name);
    OrderedJson array(const std::string& name);

    [[nodiscard]] bool good() const { return problem_.empty(); }
    [[nodiscard]] const std::string& problem() const { return problem_; }

  private:
    void wrong(const std::string& name) {
        if (problem_.empty()) problem_ = "member '" + name + "' is absent or wrong";
    }

    const OrderedJson& json_;
    std::string problem_;
};

}  // namespace tierfs
