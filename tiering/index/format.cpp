#include "tiering/index/format.hpp"

#include <algorithm>
#include <type_traits>

namespace tierfs::index_format {
namespace {

constexpr unsigned kAclShift = 16;

template <typename T>
void put(std::string& out, T value) {
    auto bits = static_cast<std::make_unsigned_t<T>>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
        out += static_cast<char>(static_cast<unsigned char>(bits & 0xFFU));
        bits = static_cast<std::make_unsigned_t<T>>(static_cast<std::uint64_t>(bits) >> 8U);
    }
}

void put_big(std::string& out, std::uint64_t value) {
    for (int shift = 56; shift >= 0; shift -= 8) {
        out += static_cast<char>(static_cast<unsigned char>((value >> static_cast<unsigned>(shift)) & 0xFFU));
    }
}

std::uint64_t get_big(std::string_view text) {
    std::uint64_t value = 0;
    for (const char c : text.substr(0, 8)) value = value << 8U | static_cast<unsigned char>(c);
    return value;
}

/// Takes numbers and texts off the front of a value; `ok` turns false, for good, at the first that is not
/// there.
class Reader {
  public:
    explicit Reader(std::string_view text) : text_(text) {}

    template <typename T>
    T number() {
        std::uint64_t value = 0;
        const std::string_view bytes = text(sizeof(T));
        for (std::size_t i = bytes.size(); i-- > 0;)
            value = value << 8U | static_cast<unsigned char>(bytes[i]);
        return static_cast<T>(value);
    }

    std::string_view text(std::size_t size) {
        if (!ok_ || text_.size() < size) {
            ok_ = false;
            return {};
        }
        const std::string_view taken = text_.substr(0, size);
        text_.remove_prefix(size);
        return taken;
    }

    ObjectKind kind() {
        const auto value = number<std::uint8_t>();
        if (value < 1 || value > 3) ok_ = false;
        return ok_ ? static_cast<ObjectKind>(value) : ObjectKind::file;
    }

    bool flag() {
        const auto value = number<std::uint8_t>();
        if (value > 1) ok_ = false;
        return value == 1;
    }

    void modes(Attributes& attributes) {
        const auto both = number<std::uint32_t>();
        attributes.mode = both & 07777U;
        attributes.acl = both >> kAclShift;
        if ((both & 0xF000U) != 0 || (attributes.acl & ~(kHasAcl | kAclMask)) != 0) ok_ = false;
    }

    void format() {
        if (number<char>() != kFormat) ok_ = false;
    }

    [[nodiscard]] bool ok() const { return ok_; }
    /// True when everything was there and nothing is left over.
    [[nodiscard]] bool done() const { return ok_ && text_.empty(); }

  private:
    std::string_view text_;
    bool ok_ = true;
};

}  // namespace

std::string number_key(char kind, std::uint64_t number) {
    std::string key(1, kind);
    put_big(key, number);
    return key;
}

std::string name_key(NodeId parent, std::string_view name) {
    std::string key;
    key.reserve(kPrefixBytes + name.size());
    key += kNames;
    put_big(key, parent);
    key += name;
    return key;
}

std::string location_key(const ContentId& id) {
    std::string key = number_key(kLocations, id.high);
    put_big(key, id.low);
    return key;
}

std::optional<std::uint64_t> parse_number_key(char kind, std::string_view key) {
    if (key.size() < kPrefixBytes || key[0] != kind) return std::nullopt;
    return get_big(key.substr(1));
}

std::optional<ContentId> parse_location_key(std::string_view key) {
    if (key.size() != 17 || key[0] != kLocations) return std::nullopt;
    return ContentId{get_big(key.substr(1)), get_big(key.substr(9))};
}

std::string encode(const NameRecord& record) {
    std::string out(1, kFormat);
    put(out, record.node);
    put(out, static_cast<std::uint8_t>(record.kind));
    return out;
}

std::string encode(const NodeRecord& record) {
    const Attributes& a = record.attributes;
    const std::string_view name = std::string_view(record.name).substr(0, 0xFFFF);
    std::string out(1, kFormat);
    out.reserve(96 + name.size() + a.version.size());
    put(out, record.parent);
    put(out, record.inode);
    put(out, static_cast<std::uint8_t>(a.kind));
    put(out, a.size);
    put(out, a.mtime_ns);
    put(out, a.ctime_ns);
    put(out, a.mode | a.acl << kAclShift);
    put(out, a.uid);
    put(out, a.gid);
    put(out, a.nlink);
    put(out, static_cast<std::uint8_t>(a.archived ? 1 : 0));
    put(out, record.content.high);
    put(out, record.content.low);
    put(out, record.checked_ns);
    put(out, static_cast<std::uint16_t>(name.size()));
    out += name;
    put(out, static_cast<std::uint32_t>(a.version.size()));
    out += a.version;
    return out;
}

std::string encode(const ListingRecord& record) {
    std::string out(1, kFormat);
    put(out, record.listed_ns);
    put(out, record.entries);
    put(out, static_cast<std::uint32_t>(record.hidden.size()));
    for (const auto& [reason, count] : record.hidden) {
        const std::string_view text = std::string_view(reason).substr(0, 0xFFFF);
        put(out, static_cast<std::uint16_t>(text.size()));
        out += text;
        put(out, count);
    }
    return out;
}

std::string encode_layout(std::uint32_t layout) {
    std::string out;
    put(out, layout);
    return out;
}

std::string encode_next_node(NodeId next) {
    std::string out(1, kFormat);
    put(out, next);
    put(out, ~next);
    return out;
}

std::optional<NameRecord> decode_name(std::string_view value) {
    Reader in(value);
    in.format();
    NameRecord record;
    record.node = in.number<std::uint64_t>();
    record.kind = in.kind();
    if (!in.done() || record.node < kFirstNode) return std::nullopt;
    return record;
}

std::optional<NodeRecord> decode_node(std::string_view value) {
    Reader in(value);
    in.format();
    NodeRecord record;
    Attributes& a = record.attributes;
    record.parent = in.number<std::uint64_t>();
    record.inode = in.number<std::uint64_t>();
    a.kind = in.kind();
    a.size = in.number<std::uint64_t>();
    a.mtime_ns = in.number<std::int64_t>();
    a.ctime_ns = in.number<std::int64_t>();
    in.modes(a);
    a.uid = in.number<std::uint32_t>();
    a.gid = in.number<std::uint32_t>();
    a.nlink = in.number<std::uint32_t>();
    a.archived = in.flag();
    record.content.high = in.number<std::uint64_t>();
    record.content.low = in.number<std::uint64_t>();
    record.checked_ns = in.number<std::int64_t>();
    record.name = in.text(in.number<std::uint16_t>());
    a.version = in.text(in.number<std::uint32_t>());
    if (!in.done()) return std::nullopt;
    return record;
}

std::optional<ListingRecord> decode_listing(std::string_view value) {
    Reader in(value);
    in.format();
    ListingRecord record;
    record.listed_ns = in.number<std::int64_t>();
    record.entries = in.number<std::uint64_t>();
    const auto count = in.number<std::uint32_t>();
    // The count may be garbage: the loop ends with the bytes, not with the count.
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
        const std::string_view reason = in.text(in.number<std::uint16_t>());
        const auto keys = in.number<std::uint64_t>();
        if (in.ok()) record.hidden[std::string(reason)] = keys;
    }
    if (!in.done()) return std::nullopt;
    return record;
}

std::optional<std::uint32_t> decode_layout(std::string_view value) {
    Reader in(value);
    const auto layout = in.number<std::uint32_t>();
    if (!in.done()) return std::nullopt;
    return layout;
}

std::optional<NodeId> decode_next_node(std::string_view value) {
    Reader in(value);
    in.format();
    const auto next = in.number<std::uint64_t>();
    const auto complement = in.number<std::uint64_t>();
    if (!in.done() || complement != ~next || next < kFirstNode) return std::nullopt;
    return next;
}

}  // namespace tierfs::index_format
