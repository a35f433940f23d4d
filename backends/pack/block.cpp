#include "backends/pack/block.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "backends/pack/numbers.hpp"
#include "config/base/text.hpp"

namespace tierfs::pack {

namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr unsigned kArchived = 4, kPacked = 8, kKindBits = 3, kCodecShift = 4;
constexpr std::size_t kDigestBytes = 16, kDigestDigits = 32;
enum Form : std::uint8_t { none, text, digest, digest_of_parts, numbers };

std::uint64_t number(std::int64_t value) {
    return static_cast<std::uint64_t>(value);
}

/// The bytes of 32 lower-case digits; empty for any other text.
std::string from_digits(std::string_view digits) {
    std::string bytes;
    for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
        unsigned value = 0;
        for (const char c : digits.substr(i, 2)) {
            if (c >= '0' && c <= '9')
                value = value * 16 + static_cast<unsigned>(c - '0');
            else if (c >= 'a' && c <= 'f')
                value = value * 16 + static_cast<unsigned>(c - 'a') + 10;
            else
                return {};
        }
        bytes.push_back(static_cast<char>(value));
    }
    return bytes.size() == kDigestBytes ? bytes : std::string();
}

std::string to_digits(std::string_view bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string digits;
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        digits.push_back(kDigits[byte >> 4U]);
        digits.push_back(kDigits[byte & 15U]);
    }
    return digits;
}

/// A decimal number without needless zeros; nothing else.
std::optional<std::uint64_t> decimal(std::string_view digits) {
    if (digits.empty() || digits.size() > 20 || (digits.size() > 1 && digits[0] == '0')) return std::nullopt;
    std::uint64_t value = 0;
    for (const char c : digits) {
        if (c < '0' || c > '9') return std::nullopt;
        if (__builtin_mul_overflow(value, 10U, &value) ||
            __builtin_add_overflow(value, static_cast<std::uint64_t>(c - '0'), &value)) {
            return std::nullopt;
        }
    }
    return value;
}

std::string numbers_text(std::uint64_t inode, const Attributes& attributes) {
    return std::to_string(inode) + ':' + std::to_string(attributes.size) + ':' +
           std::to_string(attributes.mtime_ns) + ':' + std::to_string(attributes.ctime_ns);
}

void put_version(std::string& out, const Attributes& attributes, std::uint64_t& inode_before) {
    const std::string_view version = attributes.version;
    if (version.empty()) return put_varint(out, Form::none);
    const auto inode = decimal(version.substr(0, version.find(':')));
    if (inode && numbers_text(*inode, attributes) == version) {
        put_varint(out, Form::numbers);
        put_signed(out, *inode - inode_before);
        inode_before = *inode;
        return;
    }
    const bool quoted =
        version.size() >= kDigestDigits + 2 && version.front() == '"' && version.back() == '"';
    const auto bytes = quoted ? from_digits(version.substr(1, kDigestDigits)) : std::string();
    const auto rest = quoted ? version.substr(kDigestDigits + 1, version.size() - kDigestDigits - 2) : "";
    if (!bytes.empty() && rest.empty()) {
        put_varint(out, Form::digest);
        out.append(bytes);
        return;
    }
    const auto parts = rest.starts_with('-') ? decimal(rest.substr(1)) : std::nullopt;
    if (!bytes.empty() && parts) {
        put_varint(out, Form::digest_of_parts);
        out.append(bytes);
        return put_varint(out, *parts);
    }
    put_varint(out, Form::text);
    put_varint(out, version.size());
    out.append(version);
}

std::string take_version(Cursor& in, const Attributes& attributes, std::uint64_t& inode_before) {
    switch (in.varint()) {
        case Form::none:
            return {};
        case Form::text: {
            // It becomes a header's value: a pack is data of somebody's making.
            const auto version = in.text();
            return std::string(has_control(version) ? in.spoil() : version);
        }
        case Form::digest:
            return '"' + to_digits(in.take(kDigestBytes)) + '"';
        case Form::digest_of_parts: {
            auto digits = to_digits(in.take(kDigestBytes));
            return '"' + std::move(digits) + '-' + std::to_string(in.varint()) + '"';
        }
        case Form::numbers:
            inode_before += in.difference();
            return numbers_text(inode_before, attributes);
        default:
            in.spoil();
            return {};
    }
}

/// Seconds where all times are whole ones.
template <typename Time>
std::uint64_t unit_of(std::span<const Entry> entries, Time time) {
    const bool whole = std::all_of(entries.begin(), entries.end(), [&](const Entry& entry) {
        return time(entry) % static_cast<std::int64_t>(kSecond) == 0;
    });
    return whole ? kSecond : 1;
}

/// In `unit`s: the differences are multiples of it, and may wrap around only where the unit is 1.
std::uint64_t in_units(std::int64_t value, std::uint64_t unit) {
    return number(value / static_cast<std::int64_t>(unit));
}

class Columns {
  public:
    enum Number : std::uint8_t {
        keys,
        kinds,
        sizes,
        mtimes,
        ctimes,
        owners,
        versions,
        places,
        sums,
        links,
        count
    };
    std::string& operator[](Number number) { return columns_[number]; }
    [[nodiscard]] std::string joined(std::size_t entries) const {
        std::string out;
        put_varint(out, entries);
        for (const auto& column : columns_) {
            put_varint(out, column.size());
            out.append(column);
        }
        return out;
    }

  private:
    std::array<std::string, count> columns_;
};

void put_keys(std::string& out, std::span<const Entry> entries) {
    std::string before;
    for (const auto& entry : entries) {
        auto key = key_of(entry);
        const auto [mine, other] = std::mismatch(key.begin(), key.end(), before.begin(), before.end());
        const auto shared = static_cast<std::size_t>(mine - key.begin());
        put_varint(out, shared);
        put_varint(out, key.size() - shared);
        out.append(key, shared);
        before = std::move(key);
    }
}

void put_times(Columns& out, std::span<const Entry> entries) {
    const auto mtime_unit = unit_of(entries, [](const Entry& entry) { return entry.attributes.mtime_ns; });
    const auto ctime_unit =
        mtime_unit == 1 ? 1 : unit_of(entries, [](const Entry& entry) { return entry.attributes.ctime_ns; });
    put_varint(out[Columns::mtimes], mtime_unit);
    put_varint(out[Columns::ctimes], ctime_unit);
    std::uint64_t before = 0;
    for (const auto& entry : entries) {
        const auto& attributes = entry.attributes;
        const auto mtime = in_units(attributes.mtime_ns, mtime_unit);
        put_signed(out[Columns::mtimes], mtime - before);
        before = mtime;
        put_signed(out[Columns::ctimes],
                   in_units(attributes.ctime_ns, ctime_unit) - in_units(attributes.mtime_ns, ctime_unit));
    }
}

void put_owners(std::string& out, std::span<const Entry> entries) {
    std::map<std::array<std::uint64_t, 4>, std::uint64_t> rows;
    std::string of_rows, of_entries;
    for (const auto& entry : entries) {
        const auto& a = entry.attributes;
        const std::array<std::uint64_t, 4> row{a.mode, a.uid, a.gid, a.nlink};
        const auto [place, is_new] = rows.try_emplace(row, rows.size());
        for (const auto value : row)
            if (is_new) put_varint(of_rows, value);
        put_varint(of_entries, place->second);
    }
    put_varint(out, rows.size());
    out.append(of_rows).append(of_entries);
}

void put_places(Columns& out, std::span<const Entry> entries) {
    std::uint64_t extent = 0, end = 0;
    for (const auto& entry : entries) {
        if (!entry.place) continue;
        const auto& place = *entry.place;
        if (place.extent != extent) end = 0;
        put_signed(out[Columns::places], place.extent - extent);
        put_signed(out[Columns::places], place.offset - place_after(end, place.stored));
        put_signed(out[Columns::places], place.stored - entry.attributes.size);
        for (const auto sum : place.sums) put_fixed(out[Columns::sums], sum);
        extent = place.extent;
        end = place.offset + place.stored;
    }
}

/// The block's columns, read side by side.
class Decoder {
  public:
    Decoder(const std::array<std::string_view, Columns::count>& columns, std::size_t extents)
        : keys_(columns[Columns::keys]),
          kinds_(columns[Columns::kinds]),
          sizes_(columns[Columns::sizes]),
          mtimes_(columns[Columns::mtimes]),
          ctimes_(columns[Columns::ctimes]),
          owners_(columns[Columns::owners]),
          versions_(columns[Columns::versions]),
          places_(columns[Columns::places]),
          sums_(columns[Columns::sums]),
          links_(columns[Columns::links]),
          extents_(extents) {}

    bool begin() {
        mtime_unit_ = mtimes_.varint();
        ctime_unit_ = ctimes_.varint();
        const auto rows = owners_.varint();
        for (std::uint64_t i = 0; i < rows && owners_.good() && i < kBlockEntries; ++i) {
            std::array<std::uint32_t, 4> row{};
            for (auto& value : row) value = static_cast<std::uint32_t>(owners_.varint());
            rows_.push_back(row);
        }
        const auto known = [](std::uint64_t unit) { return unit == 1 || unit == kSecond; };
        return known(mtime_unit_) && known(ctime_unit_) && rows == rows_.size();
    }

    bool next(Entry& entry) {
        if (!key(entry) || !attributes(entry)) return false;
        if (entry.attributes.kind == ObjectKind::symlink) entry.link = links_.text();
        return !is_packed_ || place(entry);
    }

    [[nodiscard]] bool ended() const {
        for (const Cursor* each : {&keys_, &kinds_, &sizes_, &mtimes_, &ctimes_, &owners_, &versions_,
                                   &places_, &sums_, &links_}) {
            if (!each->at_end()) return false;
        }
        return true;
    }

  private:
    bool key(Entry& entry) {
        const auto shared = keys_.varint();
        const auto rest = keys_.text();
        if (!keys_.good() || shared > key_.size() ||
            shared + rest.size() > kLongestDirectory + kLongestName + 1)
            return false;
        const auto found = key_.substr(0, shared).append(rest);
        if (!first_ && found <= key_) return false;
        key_ = found;
        const bool is_first = std::exchange(first_, false);
        if (key_.empty()) return is_first;
        const auto zero = key_.find('\0');
        if (zero == std::string::npos) return false;
        entry.directory = key_.substr(0, zero);
        entry.name = key_.substr(zero + 1);
        return is_clean_directory(entry.directory) && is_clean_name(entry.name);
    }

    bool attributes(Entry& entry) {
        auto& a = entry.attributes;
        const auto kind = kinds_.fixed<std::uint8_t>();
        is_packed_ = (kind & kPacked) != 0;
        codec_ = static_cast<std::uint8_t>(kind >> kCodecShift);
        if ((kind & kKindBits) == 0 || !kinds_.good()) return false;
        a.kind = static_cast<ObjectKind>(kind & kKindBits);
        a.archived = (kind & kArchived) != 0;
        if ((is_packed_ && a.kind != ObjectKind::file) || (!is_packed_ && codec_ != 0)) return false;
        if (entry.is_root() && a.kind != ObjectKind::directory) return false;
        a.size = sizes_.varint();
        mtime_ += mtimes_.difference();
        a.mtime_ns = static_cast<std::int64_t>(mtime_ * mtime_unit_);
        const auto base = in_units(a.mtime_ns, ctime_unit_);
        a.ctime_ns = static_cast<std::int64_t>((base + ctimes_.difference()) * ctime_unit_);
        const auto row = owners_.varint();
        if (row >= rows_.size()) return false;
        a.mode = rows_[row][0] & 07777U;
        a.uid = rows_[row][1];
        a.gid = rows_[row][2];
        a.nlink = rows_[row][3];
        a.version = take_version(versions_, a, inode_);
        return sizes_.good() && mtimes_.good() && ctimes_.good() && versions_.good();
    }

    bool place(Entry& entry) {
        Place place;
        const auto extent = extent_ + places_.difference();
        if (extent != extent_) end_ = 0;
        const auto offset = places_.difference();
        const auto stored = places_.difference() + entry.attributes.size;
        const auto codec = codec_of(codec_);
        if (!places_.good() || extent >= extents_ || stored == 0 || stored > kMaxPackedObject || !codec)
            return false;
        const bool whole =
            *codec == Codec::none ? stored == entry.attributes.size : stored < entry.attributes.size;
        if (!whole || entry.attributes.size > kMaxPackedObject) return false;
        place.extent = static_cast<std::uint32_t>(extent);
        place.stored = static_cast<std::uint32_t>(stored);
        place.offset = place_after(end_, stored) + offset;
        place.codec = *codec;
        if (place.offset > kMostOffset) return false;
        extent_ = extent;
        end_ = place.offset + stored;
        for (std::uint64_t i = 0; i < unit_count(stored, kExtentUnit); ++i)
            place.sums.push_back(sums_.fixed<std::uint32_t>());
        entry.place = std::move(place);
        return sums_.good();
    }

    static constexpr std::uint64_t kMostOffset = std::uint64_t{1} << 40U;

    Cursor keys_, kinds_, sizes_, mtimes_, ctimes_, owners_, versions_, places_, sums_, links_;
    const std::size_t extents_;
    std::vector<std::array<std::uint32_t, 4>> rows_;
    std::string key_;
    bool first_ = true, is_packed_ = false;
    std::uint8_t codec_ = 0;
    std::uint64_t mtime_unit_ = 0, ctime_unit_ = 0, mtime_ = 0, inode_ = 0, extent_ = 0, end_ = 0;
};

}  // namespace

std::size_t weight_of(const Entry& entry) {
    return 32 + entry.name.size() + entry.link.size() + (entry.place ? 4 * entry.place->sums.size() : 0);
}

std::string encode_block(std::span<const Entry> entries) {
    Columns out;
    put_keys(out[Columns::keys], entries);
    put_times(out, entries);
    put_owners(out[Columns::owners], entries);
    put_places(out, entries);
    std::uint64_t inode = 0;
    for (const auto& entry : entries) {
        const auto& a = entry.attributes;
        unsigned kind = static_cast<unsigned>(a.kind) | (a.archived ? kArchived : 0U);
        if (entry.place) kind |= kPacked | static_cast<unsigned>(entry.place->codec) << kCodecShift;
        out[Columns::kinds].push_back(static_cast<char>(kind));
        put_varint(out[Columns::sizes], a.size);
        put_version(out[Columns::versions], a, inode);
        if (a.kind != ObjectKind::symlink) continue;
        put_varint(out[Columns::links], entry.link.size());
        out[Columns::links].append(entry.link);
    }
    return out.joined(entries.size());
}

std::optional<std::vector<Entry>> decode_block(std::string_view bytes, std::size_t extents) {
    Cursor in(bytes);
    const auto count = in.varint();
    std::array<std::string_view, Columns::count> columns;
    for (auto& column : columns) column = in.text();
    if (!in.at_end() || count == 0 || count > kBlockEntries) return std::nullopt;
    Decoder decoder(columns, extents);
    if (!decoder.begin()) return std::nullopt;
    std::vector<Entry> entries(count);
    for (auto& entry : entries)
        if (!decoder.next(entry)) return std::nullopt;
    if (!decoder.ended()) return std::nullopt;
    return entries;
}

}  // namespace tierfs::pack
