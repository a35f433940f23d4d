// What people read about the settings: --help, the YAML file of defaults, the man page.
#include <algorithm>

#include "config/settings_manual.hpp"
#include "config/settings_table.hpp"

namespace tierfs {
namespace {

using settings::Key;
using settings::Kind;

std::string default_text(const Key& key) {
    return key.automatic ? "auto" : settings::value_text(key, settings::defaults());
}

/// What is before the point, unless that is a key itself: YAML has one value for a name.
std::string section_of(std::string_view name) {
    const auto dot = name.find('.');
    if (dot == std::string_view::npos || settings::find(name.substr(0, dot)) != nullptr) return {};
    return std::string(name.substr(0, dot));
}

/// As -o takes it: "memory.limit=SIZE", "allow_other".
std::string usage(const Key& key) {
    std::string name(key.name);
    switch (key.kind) {
        case Kind::flag:
            return name;
        case Kind::size:
            return name + "=SIZE";
        case Kind::duration:
            return name + "=TIME";
        case Kind::count:
            return name + "=N";
        case Kind::octal:
            return name + "=MODE";
        case Kind::text:
            return name + "=TEXT";
        case Kind::path:
            return name + "=PATH";
        case Kind::paths:
            return name + "=PATH[:PATH...]";
        case Kind::url:
            return name + "=URL";
        case Kind::address:
            return name + "=ADDRESS";
        case Kind::choice:
            break;
    }
    std::string choices;
    for (const auto choice : key.choices) choices += (choices.empty() ? "" : "|") + std::string(choice);
    return name + "=" + choices;
}

/// Backslashes, hyphens and a leading dot or quote mean something to man(7).
std::string man_text(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '\\') {
            out += "\\e";
        } else if (c == '-') {
            out += "\\-";
        } else {
            out += c;
        }
    }
    return !out.empty() && (out[0] == '.' || out[0] == '\'') ? "\\&" + out : out;
}

std::string man_explanation(const Key& key) {
    const std::string value = default_text(key);
    return man_text(key.help) + "\nAllowed: " + man_text(settings::allowed(key)) +
           ".\nDefault: " + (value.empty() ? std::string("empty") : man_text(value)) + ".\n";
}

}  // namespace

std::string settings_help() {
    std::string out;
    constexpr std::size_t column = 34;
    for (const Key& key : settings::table()) {
        std::string line = "  " + usage(key);
        line += line.size() + 2 <= column ? std::string(column - line.size(), ' ')
                                          : "\n" + std::string(column, ' ');
        const std::string value = default_text(key);
        line += std::string(key.help) + (value.empty() ? "" : " [" + value + "]");
        out += line + "\n";
    }
    return out + "  " + "config=FILE" + std::string(column - 13, ' ') +
           "Read settings from a YAML file first.\n";
}

std::string settings_defaults_yaml() {
    std::string out = "# All settings of tierfs at their defaults.\n";
    std::string section;
    for (const Key& key : settings::table()) {
        if (key.opposite) continue;  // whoever changed the one would be overruled by the other
        const std::string own = section_of(key.name);
        if (own != section) out += "\n" + (own.empty() ? "" : own + ":\n");
        section = own;
        const std::string indent = own.empty() ? "" : "  ";
        const std::string name(key.name.substr(own.empty() ? 0 : own.size() + 1));
        const std::string value = default_text(key);
        out += indent + "# " + std::string(key.help) + "\n";
        out += indent + "# Allowed: " + settings::allowed(key) + "\n";
        // Modes are quoted, since YAML 1.1 readers take 0444 for a number.
        const bool quote = value.empty() || key.kind == Kind::octal;
        out += indent + name + ": " + (quote ? "\"" + value + "\"" : value) + "\n";
    }
    out +=
        "\n# Rules: which files are a dataset of its own, with a class of its own; the first that matches "
        "wins. As in\n"
        "#   - {match: \"/train/**\", class: epoch}\n"
        "#   - {match: \"**/*.idx\", class: pin, size: \"< 1G\"}\n"
        "datasets: []\n";
    return out;
}

std::vector<std::pair<std::string, std::string>> settings_values(const Settings& settings) {
    std::vector<std::pair<std::string, std::string>> values;
    for (const Key& key : settings::table()) {
        if (!key.opposite) values.emplace_back(key.name, settings::value_text(key, settings));
    }
    return values;
}

std::string settings_man() {
    std::string out;
    for (const Key& key : settings::table()) {
        out += ".TP\n.B " + man_text(usage(key)) + "\n" + man_explanation(key);
    }
    out +=
        ".TP\n.B config=FILE\nRead settings from a YAML file first; the environment and other options "
        "override it.\n";
    return out;
}

std::string settings_yaml_man() {
    std::string out;
    std::string section = "none";
    for (const Key& key : settings::table()) {
        const std::string own = section_of(key.name);
        if (own != section) out += ".SS " + (own.empty() ? std::string("Of the mount") : own + ":") + "\n";
        section = own;
        std::string value = usage(key).substr(key.name.size());
        value = value.empty() ? "true|false" : value.substr(1);
        out += ".TP\n.B " +
               man_text(std::string(key.name.substr(own.empty() ? 0 : own.size() + 1)) + ": " + value) +
               "\n" + man_explanation(key);
    }
    return out;
}

}  // namespace tierfs
