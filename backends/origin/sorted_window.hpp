// Names of a directory in their order, as many as memory allows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tierfs {

/// Readdir and servers give names in an order of their own, while pages of an Origin are cut from all names,
/// sorted. A directory that takes more memory than is allowed is read once for each stretch of its names: of
/// those behind `after` the window keeps the first, whatever order they come in. `Name` is a std::string, or
/// has one as its member `name`. Not thread-safe.
template <typename Name>
class SortedWindow {
  public:
    /// `after`: empty for the first stretch. `most_bytes`: of what it keeps; one name is always kept.
    SortedWindow(std::string after, std::size_t most_bytes)
        : after_(std::move(after)), most_bytes_(most_bytes) {}

    /// False: it does not belong to this stretch, whatever comes.
    [[nodiscard]] bool wants(const std::string& text) const {
        return after_ < text && !(cut_ && *cut_ < text);
    }
    /// `bytes`: what this name takes.
    void add(Name name, std::size_t bytes) {
        if (!wants(text_of(name))) return;
        names_.push_back({std::move(name), bytes});
        bytes_ += bytes;
        if (bytes_ > most_bytes_) cut();
    }

    struct Stretch {
        std::vector<Name> names;  ///< sorted, each once
        std::size_t bytes = 0;
        bool is_last = true;  ///< no name of the directory comes behind them
    };
    Stretch take() {
        std::sort(names_.begin(), names_.end(), is_before);
        Stretch stretch;
        stretch.is_last = !cut_;
        stretch.names.reserve(names_.size());
        for (auto& [name, bytes] : names_) {
            // Names that come and go while a directory is read may come twice.
            if (!stretch.names.empty() && text_of(stretch.names.back()) == text_of(name)) continue;
            stretch.names.push_back(std::move(name));
            stretch.bytes += bytes;
        }
        names_.clear();
        return stretch;
    }

  private:
    struct Kept {
        Name name;
        std::size_t bytes;
    };
    static const std::string& text_of(const std::string& name) { return name; }
    template <typename Other>
    static const std::string& text_of(const Other& name) {
        return name.name;
    }
    static bool is_before(const Kept& a, const Kept& b) { return text_of(a.name) < text_of(b.name); }

    // The second half goes, and all that would have stood in it: each name is moved a few times, however many
    // there are.
    void cut() {
        if (names_.size() < 2) return;
        const auto middle = names_.begin() + static_cast<std::ptrdiff_t>((names_.size() - 1) / 2);
        std::nth_element(names_.begin(), middle, names_.end(), is_before);
        cut_ = text_of(middle->name);
        names_.erase(middle + 1, names_.end());
        bytes_ = 0;
        for (const auto& kept : names_) bytes_ += kept.bytes;
    }

    const std::string after_;
    const std::size_t most_bytes_;
    std::vector<Kept> names_;
    std::size_t bytes_ = 0;
    std::optional<std::string> cut_;  ///< the last name that is kept; what comes behind it is for later
};

}  // namespace tierfs
