#include "fs/pack/packing_order.hpp"

#include <algorithm>
#include <optional>

namespace tierfs::pack {

namespace {

/// One list, from its first line to its last.
class OrderParser {
  public:
    explicit OrderParser(const std::vector<Entry>& entries) : entries_(entries), taken_(entries.size()) {}

    void take(std::string_view line) {
        if (line.empty()) return;
        const auto file = line.front() == '/' ? absolute(line) : below_root(line);
        if (!file) {
            ++order_.unknown;
        } else if (!taken_[*file]) {
            taken_[*file] = true;
            order_.files.push_back(*file);
        }
    }

    PackingOrder end() { return std::move(order_); }

  private:
    [[nodiscard]] std::optional<std::size_t> below_root(std::string_view path) const {
        while (path.starts_with("./")) path.remove_prefix(2);
        const auto key = key_of_path(path);
        const auto found = std::lower_bound(
            entries_.begin(), entries_.end(), key,
            [](const Entry& entry, const std::string& wanted) { return key_of(entry) < wanted; });
        const bool is_file =
            found != entries_.end() && found->attributes.kind == ObjectKind::file && key_of(*found) == key;
        if (!is_file) return std::nullopt;
        return static_cast<std::size_t>(found - entries_.begin());
    }

    std::optional<std::size_t> absolute(std::string_view path) {
        if (mount_) {
            if (!path.starts_with(*mount_)) return std::nullopt;
            return below_root(path.substr(mount_->size()));
        }
        for (auto slash = path.find('/'); slash != std::string_view::npos;
             slash = path.find('/', slash + 1)) {
            const auto file = below_root(path.substr(slash + 1));
            if (!file) continue;
            mount_ = std::string(path.substr(0, slash + 1));
            return file;
        }
        return std::nullopt;
    }

    const std::vector<Entry>& entries_;
    std::vector<bool> taken_;
    std::optional<std::string> mount_;  ///< what absolute paths begin with
    PackingOrder order_;
};

}  // namespace

PackingOrder parse_order(std::string_view list, const std::vector<Entry>& entries) {
    OrderParser parser(entries);
    while (!list.empty()) {
        const auto end = std::min(list.find('\n'), list.size());
        parser.take(list.substr(0, end));
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return parser.end();
}

}  // namespace tierfs::pack
