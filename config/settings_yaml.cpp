// yaml-cpp stands behind this file alone.
#include <sys/stat.h>
#include <yaml-cpp/yaml.h>

#include <fstream>
#include <set>
#include <sstream>

#include "config/settings_table.hpp"

namespace tierfs {

namespace {

constexpr std::size_t kMaxFileSize = std::size_t{1} << 20;
constexpr int kMaxDepth = 4;
constexpr unsigned kMaxNodes = 10'000;

/// Turns a node into dotted keys. Throws YAML::Exception only.
class Flattener {
  public:
    explicit Flattener(std::string path) : path_(std::move(path)) {}

    Result<void> add(const YAML::Node& node, const std::string& prefix, int depth) {
        if (depth > kMaxDepth) return fail(EINVAL, place(node) + ": nested too deeply");
        for (const auto& pair : node) {
            // Aliases share nodes: nested ones make a small file endless.
            if (++visited_ > kMaxNodes) return fail(EINVAL, path_ + ": more than 10000 keys");
            if (!pair.first.IsScalar()) return fail(EINVAL, place(pair.first) + ": a key must be a word");
            const std::string key = prefix.empty() ? pair.first.Scalar() : prefix + "." + pair.first.Scalar();
            if (pair.second.IsMap()) {
                if (auto added = add(pair.second, key, depth + 1); !added) return added;
                continue;
            }
            if (pair.second.IsSequence()) {
                return fail(EINVAL,
                            place(pair.second) + ": " + key + ": a list was found, one value is allowed");
            }
            if (!seen_.insert(key).second)
                return fail(EINVAL, place(pair.first) + ": key '" + key + "' stands twice");
            texts_.push_back(
                {key, pair.second.IsNull() ? std::string() : pair.second.Scalar(), place(pair.first)});
        }
        return {};
    }

    std::vector<SettingText> take() { return std::move(texts_); }

  private:
    [[nodiscard]] std::string place(const YAML::Node& node) const {
        return path_ + ":" + std::to_string(node.Mark().line + 1);
    }

    std::string path_;
    unsigned visited_ = 0;
    std::set<std::string> seen_;
    std::vector<SettingText> texts_;
};

Result<std::string> read_whole(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
        return fail(system_error(errno, "configuration file '" + path + "'"));
    if (!S_ISREG(status.st_mode))
        return fail(EINVAL, "configuration file '" + path + "' is not a regular file");
    if (static_cast<std::size_t>(status.st_size) > kMaxFileSize) {
        return fail(EFBIG, "configuration file '" + path + "' is larger than 1 MiB");
    }
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) {
        if (status.st_size == 0) return std::string();
        return fail(system_error(EACCES, "configuration file '" + path + "'"));
    }
    return text.str();
}

}  // namespace

Result<std::vector<SettingText>> read_settings_file(const std::string& path) {
    const auto text = read_whole(path);
    if (!text) return fail(text.error());
    try {
        const YAML::Node root = YAML::Load(*text);
        if (root.IsNull()) return std::vector<SettingText>{};
        if (!root.IsMap()) return fail(EINVAL, path + ": keys and values are expected ('key: value')");
        Flattener flattener(path);
        if (auto added = flattener.add(root, "", 1); !added) return fail(added.error());
        return flattener.take();
    } catch (const YAML::Exception& error) {
        return fail(EINVAL, path + ":" + std::to_string(error.mark.line + 1) + ": not YAML: " + error.msg);
    }
}

}  // namespace tierfs
