#include "config/base/glob.hpp"

namespace tierfs {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

bool continues(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U;
}

/// Bytes of the character that begins at `at`, what is no UTF-8 included.
std::size_t character_at(std::string_view text, std::size_t at) {
    std::size_t end = at + 1;
    while (end < text.size() && continues(text[end])) ++end;
    return end - at;
}

/// The name that begins at `at`; `at` moves behind its slash, or to kNone behind the last one.
std::string_view next_name(std::string_view path, std::size_t& at) {
    const std::size_t slash = path.find('/', at);
    const auto name = path.substr(at, slash == kNone ? kNone : slash - at);
    at = slash == kNone ? kNone : slash + 1;
    return name;
}

}  // namespace

Result<Glob> Glob::compile(std::string_view pattern) {
    if (pattern.size() > kLongest)
        return fail(EINVAL, "is longer than " + std::to_string(kLongest) + " bytes");
    if (!pattern.starts_with('/') && !pattern.starts_with("**/"))
        return fail(EINVAL, "begins neither with / (the mount's root) nor with **/ (anywhere)");
    Glob glob;
    glob.text_ = std::string(pattern);
    if (pattern.starts_with('/')) pattern.remove_prefix(1);
    for (std::size_t at = 0; at != kNone;) {
        auto name = compile_name(next_name(pattern, at));
        if (!name) return fail(name.error());
        // Two in a row mean what one means.
        if (name->any_names && !glob.names_.empty() && glob.names_.back().any_names) continue;
        glob.names_.push_back(std::move(*name));
    }
    return glob;
}

Result<Glob::Name> Glob::compile_name(std::string_view text) {
    if (text.empty()) return fail(EINVAL, "has an empty name (two slashes, or one at the end)");
    Name name;
    if (text == "**") {
        name.any_names = true;
        return name;
    }
    for (std::size_t at = 0; at < text.size(); ++at) {
        Token token;
        token.byte = text[at];
        if (text[at] == '*') {
            if (!name.tokens.empty() && name.tokens.back().kind == Token::Kind::any_run) continue;
            token.kind = Token::Kind::any_run;
        } else if (text[at] == '?') {
            token.kind = Token::Kind::any_one;
        } else if (text[at] == '[') {
            auto set = compile_set(text, at);
            if (!set) return fail(set.error());
            token = *set;
        } else if (text[at] == '\\') {
            if (++at == text.size()) return fail(EINVAL, "ends a name with a backslash");
            token.byte = text[at];
        }
        name.tokens.push_back(token);
    }
    return name;
}

Result<Glob::Token> Glob::compile_set(std::string_view text, std::size_t& at) {
    Token token;
    token.kind = Token::Kind::one_of;
    ++at;
    if (at < text.size() && (text[at] == '!' || text[at] == '^')) {
        token.negated = true;
        ++at;
    }
    const std::size_t first = at;
    for (; at < text.size() && (text[at] != ']' || at == first); ++at) {
        const auto from = static_cast<unsigned char>(text[at]);
        auto to = from;
        if (at + 2 < text.size() && text[at + 1] == '-' && text[at + 2] != ']') {
            to = static_cast<unsigned char>(text[at + 2]);
            at += 2;
        }
        if (from >= 0x80 || to >= 0x80) return fail(EINVAL, "has other characters than ASCII in brackets");
        if (from > to) return fail(EINVAL, "has a range in brackets that ends before it begins");
        for (unsigned each = from; each <= to; ++each)
            (each < 64 ? token.low : token.high) |= std::uint64_t{1} << (each % 64);
    }
    if (at >= text.size()) return fail(EINVAL, "has a bracket that is not closed in its name");
    return token;
}

bool Glob::accepts(const Token& token, std::string_view character) {
    if (token.kind == Token::Kind::any_one) return true;
    const auto byte = static_cast<unsigned char>(character[0]);
    if (byte >= 0x80) return token.negated;
    const bool listed = (((byte < 64 ? token.low : token.high) >> (byte % 64)) & 1U) != 0;
    return listed != token.negated;
}

bool Glob::matches_name(const Name& pattern, std::string_view name) {
    const auto& tokens = pattern.tokens;
    std::size_t token = 0, at = 0;
    std::size_t star = kNone, star_at = 0;  // where the last * stands, and what it reaches to so far
    while (at < name.size()) {
        if (token < tokens.size()) {
            const Token& now = tokens[token];
            if (now.kind == Token::Kind::any_run) {
                star = token++;
                star_at = at;
                continue;
            }
            const std::size_t length = now.kind == Token::Kind::byte ? 1 : character_at(name, at);
            if (now.kind == Token::Kind::byte ? now.byte == name[at]
                                              : accepts(now, name.substr(at, length))) {
                ++token;
                at += length;
                continue;
            }
        }
        if (star == kNone) return false;
        token = star + 1;
        star_at += character_at(name, star_at);
        at = star_at;
    }
    while (token < tokens.size() && tokens[token].kind == Token::Kind::any_run) ++token;
    return token == tokens.size();
}

bool Glob::matches(std::string_view path) const {
    if (path.starts_with('/')) path.remove_prefix(1);
    std::size_t pattern = 0, at = 0;
    std::size_t stars = kNone, stars_at = 0;
    while (at != kNone) {
        if (pattern < names_.size() && names_[pattern].any_names) {
            stars = pattern++;
            stars_at = at;
            // At the end it stands for what is inside a directory, not for the directory's own name.
            if (pattern == names_.size()) return true;
            continue;
        }
        std::size_t behind = at;
        if (pattern < names_.size() && matches_name(names_[pattern], next_name(path, behind))) {
            ++pattern;
            at = behind;
            continue;
        }
        if (stars == kNone) return false;
        (void)next_name(path, stars_at);
        pattern = stars + 1;
        at = stars_at;
    }
    return pattern == names_.size();
}

}  // namespace tierfs
