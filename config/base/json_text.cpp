#include "config/base/json_text.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdio>

#include "config/base/hex.hpp"

namespace tierfs {

namespace {

/// How many bytes the UTF-8 character at the start takes; 0: there is none (RFC 3629, section 4).
std::size_t character(std::string_view text) {
    const auto at = [&](std::size_t i) {
        return i < text.size() ? static_cast<unsigned>(static_cast<unsigned char>(text[i])) : 0U;
    };
    const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
        return at(i) >= low && at(i) <= high;
    };
    const unsigned first = at(0);
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
    if (first >= 0xe0 && first <= 0xef) {
        const unsigned low = first == 0xe0 ? 0xa0 : 0x80;
        const unsigned high = first == 0xed ? 0x9f : 0xbf;
        return follows(1, low, high) && follows(2) ? 3 : 0;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        const unsigned low = first == 0xf0 ? 0x90 : 0x80;
        const unsigned high = first == 0xf4 ? 0x8f : 0xbf;
        return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
    }
    return 0;
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t length = character(text);
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

}  // namespace

void put_text(OrderedJson& json, const std::string& name, const std::string& text) {
    if (is_utf8(text)) {
        json[name] = text;
        return;
    }
    std::string hex;
    for (const char byte : text) hex += to_hex(static_cast<unsigned char>(byte), 2);
    json[name + "_hex"] = hex;
}

std::string printable(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const std::size_t length = character(text);
        const bool control = length == 1 && (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7f);
        if (length == 0 || control) {
            out += '?';
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return out;
}

Result<void> write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t done = ::write(fd, text.data(), text.size());
        if (done < 0) {
            if (errno == EINTR) continue;
            return fail(system_error(errno, "write"));
        }
        text.remove_prefix(static_cast<std::size_t>(done));
    }
    return {};
}

std::string Fields::text(const std::string& name) {
    if (const auto plain = json_.find(name); plain != json_.end() && plain->is_string())
        return plain->get<std::string>();
    const auto coded = json_.find(name + "_hex");
    if (coded == json_.end() || !coded->is_string()) {
        wrong(name);
        return {};
    }
    const auto& digits = coded->get_ref<const std::string&>();
    std::string out;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
        unsigned byte = 0;
        const auto end = digits.data() + i + 2;
        if (std::from_chars(digits.data() + i, end, byte, 16).ptr != end) wrong(name);
        out += static_cast<char>(byte);
    }
    if (digits.size() % 2 != 0) wrong(name);
    return out;
}

std::uint64_t Fields::number(const std::string& name, std::uint64_t most) {
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_number_unsigned() || found->get<std::uint64_t>() > most) {
        wrong(name);
        return 0;
    }
    return found->get<std::uint64_t>();
}

std::int64_t Fields::signed_number(const std::string& name) {
    const auto found = json_.find(name);
    const bool fits = found != json_.end() && found->is_number_integer() &&
                      !(found->is_number_unsigned() && found->get<std::uint64_t>() > INT64_MAX);
    if (!fits) {
        wrong(name);
        return 0;
    }
    return found->get<std::int64_t>();
}

std::uint64_t Fields::hex(const std::string& name, std::size_t digits) {
    const auto found = json_.find(name);
    if (found == json_.end()) {
        wrong(name);
        return 0;
    }
    return hex_of(*found, digits, name);
}

std::uint64_t Fields::hex_of(const OrderedJson& value, std::size_t digits, const std::string& name) {
    if (value.is_string()) {
        const auto& text = value.get_ref<const std::string&>();
        std::uint64_t number = 0;
        const auto end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, number, 16);
        if (text.size() == digits && read.ec == std::errc() && read.ptr == end) return number;
    }
    wrong(name);
    return 0;
}

OrderedJson Fields::array(const std::string& name) {
    const auto found = json_.find(name);
    if (found != json_.end() && found->is_array()) return *found;
    wrong(name);
    return OrderedJson::array();
}

}  // namespace tierfs
