#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <cerrno>
#include <set>
#include <sstream>

#include "config/base/fault_point.hpp"
#include "config/settings_reread.hpp"
#include "config/settings_table.hpp"

namespace tierfs::settings {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;
constexpr std::size_t kMostDepth = 16;
constexpr std::string_view kRules = "datasets";

/// Thrown to leave the parser early: what follows makes no sense, or costs too much.
struct Stop {};

/// Takes the parser's events, so that no tree is built: aliases are refused before they can multiply, and
/// every value has its line. Dotted keys and nested maps give the same names.
class Collector : public YAML::EventHandler {
  public:
    Collector(const std::string& path, std::vector<Error>& problems) : path_(path), problems_(problems) {}

    std::vector<Entry> entries;

    void OnDocumentStart(const YAML::Mark&) override {}
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { scalar(mark, "", true); }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
        problem(mark, "aliases (*name) are not allowed; allowed: plain values");
        throw Stop{};
    }
    void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  const std::string& value) override {
        scalar(mark, value, false);
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                         YAML::EmitterStyle::value) override {
        if (ignored_ == 0 && !rules_open_ && maps_.size() == 1 && maps_[0].has_key &&
            maps_[0].key == kRules) {
            rules_open_ = true;
            return;
        }
        if (ignored_ == 0) {
            const std::string name = maps_.empty() ? "" : maps_.back().prefix + maps_.back().key;
            std::string text = name + ": found a list; allowed: one value";
            if (name.empty()) text = "found a list; allowed: keys and values";
            if (between_rules()) text = "datasets: found a list in the list; allowed: rules";
            if (name == "nvme.path") text += "; several devices are one text, /nvme0:/nvme1";
            problem(mark, text);
        }
        deeper(mark);
    }
    void OnSequenceEnd() override {
        if (ignored_ > 0) return shallower();
        rules_open_ = false;
        maps_.back().has_key = false;
    }
    void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                    YAML::EmitterStyle::value) override {
        if (ignored_ > 0 || maps_.size() >= kMostDepth) return deeper(mark);
        if (maps_.empty()) {
            maps_.push_back({});
        } else if (between_rules()) {
            entries.push_back({"", "", place(mark), rules_});
            maps_.push_back({std::string(kRules) + "[" + std::to_string(rules_) + "].", "", false});
        } else if (!maps_.back().has_key) {
            problem(mark, "found a map as a key; allowed: keys and values");
            deeper(mark);
        } else {
            const std::string name = maps_.back().prefix + maps_.back().key;
            if (find(name) != nullptr && !is_section(name)) {
                problem(mark, name + ": found a map; allowed: " + allowed(*find(name)));
                return deeper(mark);
            }
            if (rules_open_ || (maps_.size() == 1 && name == kRules)) {
                problem(mark,
                        name + ": found a map; allowed: " + (rules_open_ ? "one value" : "a list of rules"));
                return deeper(mark);
            }
            maps_.push_back({name + ".", "", false});
        }
    }
    void OnMapEnd() override {
        if (ignored_ > 0) return shallower();
        maps_.pop_back();
        if (between_rules()) {
            ++rules_;
        } else if (!maps_.empty()) {
            maps_.back().has_key = false;
        }
    }

  private:
    struct Map {
        std::string prefix;  ///< "memory." inside memory's map
        std::string key;
        bool has_key = false;  ///< the key was read, its value comes next
    };

    /// In the list `datasets`, and in none of its rules.
    [[nodiscard]] bool between_rules() const { return rules_open_ && maps_.size() == 1; }

    void scalar(const YAML::Mark& mark, const std::string& value, bool null) {
        if (ignored_ > 0) return;
        if (maps_.empty()) {
            if (!null) problem(mark, "found " + shown(value) + "; allowed: keys and values");
            return;
        }
        if (between_rules()) {
            problem(mark,
                    "datasets: found " + shown(value) + "; allowed: rules, as - {match: /a/**, class: hot}");
            return;
        }
        Map& map = maps_.back();
        if (!map.has_key) {
            map.key = value;
            map.has_key = true;
            // Sections may come twice, as `memory.limit: 1G` beside `memory: {}` does; values may not.
            const std::string name = map.prefix + value;
            const bool is_value = rules_open_ || find(name) != nullptr || name == kRules;
            if (is_value && !seen_.insert(name).second)
                problem(mark, (find(name) != nullptr ? name : shown(name)) + ": is given twice");
            return;
        }
        map.has_key = false;
        const std::string name = map.prefix + map.key;
        const Key* key = find(name);
        if (rules_open_) {
            entries.push_back({map.key, value, place(mark), rules_});
            return;
        }
        if (null && key == nullptr && (is_section(name) || name == kRules)) return;
        if (null && key != nullptr) return problem(mark, name + ": found nothing; allowed: " + allowed(*key));
        if (name == kRules)
            return problem(mark, name + ": found " + shown(value) + "; allowed: a list of rules");
        entries.push_back({name, value, place(mark), std::nullopt});
    }

    static bool is_section(const std::string& name) {
        for (const Key& key : table()) {
            if (key.name.starts_with(name + ".")) return true;
        }
        return false;
    }

    /// Inside a list, a map in a list, or a map too deep: nothing there can be a setting.
    void deeper(const YAML::Mark& mark) {
        if (++ignored_ > kMostDepth || maps_.size() >= kMostDepth) {
            problem(mark, "the file is nested too deeply; allowed: a section and its keys");
            throw Stop{};
        }
    }
    void shallower() {
        if (--ignored_ == 0 && !maps_.empty() && !between_rules())
            maps_.back().has_key = !maps_.back().has_key;
    }

    std::string place(const YAML::Mark& mark) const { return path_ + ":" + std::to_string(mark.line + 1); }
    void problem(const YAML::Mark& mark, const std::string& text) {
        problems_.push_back(Error{EINVAL, place(mark) + ": " + text});
    }

    const std::string& path_;
    std::vector<Error>& problems_;
    std::vector<Map> maps_;
    std::size_t ignored_ = 0;
    std::set<std::string> seen_;
    bool rules_open_ = false;
    unsigned rules_ = 0;  ///< of `datasets`, complete
};

}  // namespace

std::vector<Entry> read_yaml(const std::string& path, const std::optional<std::string>& known,
                             std::vector<Error>& problems) {
    const auto text = known ? Result<std::string>(*known) : read_settings_file(path);
    if (!text) {
        problems.push_back(text.error());
        return {};
    }
    if (text->find('\0') != std::string::npos) {
        problems.push_back(Error{EINVAL, path + ": holds zero bytes; allowed: a YAML file in UTF-8"});
        return {};
    }
    Collector collector(path, problems);
    try {
        std::istringstream in(*text);
        YAML::Parser parser(in);
        if (parser.HandleNextDocument(collector) && parser) {
            problems.push_back(Error{EINVAL, path + ": holds several documents (---); allowed: one"});
        }
    } catch (const Stop&) {
    } catch (const YAML::Exception& e) {
        const std::string line = e.mark.is_null() ? "" : ":" + std::to_string(e.mark.line + 1);
        problems.push_back(Error{EINVAL, path + line + ": is not YAML: " + e.msg});
    }
    return std::move(collector.entries);
}

}  // namespace tierfs::settings

namespace tierfs {

Result<std::string> read_settings_file(const std::string& path) {
    // O_NONBLOCK: a FIFO must not hang the mount.
    const int fd = TIERFS_FAULT_CALL("config.open", ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd < 0) return fail(system_error(errno, path));
    struct stat attributes {};
    std::string text;
    Result<std::string> result;
    if (fstat(fd, &attributes) != 0) {
        result = fail(system_error(errno, path));
    } else if (S_ISDIR(attributes.st_mode)) {
        result = fail(EISDIR, path + ": is a directory; allowed: a YAML file");
    } else if (!S_ISREG(attributes.st_mode)) {
        result = fail(EINVAL, path + ": is not a regular file; allowed: a YAML file");
    } else {
        text.resize(settings::kMostBytes + 1);
        std::size_t length = 0;
        ssize_t got = 0;
        while (length < text.size() &&
               (got = TIERFS_FAULT_CALL("config.read", ::read(fd, text.data() + length,
                                                              TIERFS_FAULT_SHORT(text.size() - length)))) >
                   0) {
            length += static_cast<std::size_t>(got);
        }
        text.resize(length);
        if (got < 0) {
            result = fail(system_error(errno, path));
        } else if (length > settings::kMostBytes) {
            result = fail(EFBIG, path + ": is larger than 1 MiB; allowed: a YAML file of at most 1 MiB");
        } else {
            result = std::move(text);
        }
    }
    ::close(fd);
    return result;
}

}  // namespace tierfs
