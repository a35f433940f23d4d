#include "backends/origin/young_version.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "backends/origin/origin.hpp"

namespace tierfs {

void outgrow(Origin& origin, const std::string& path, Attributes& attributes,
             const std::function<bool()>& stopped) {
    constexpr std::chrono::milliseconds kBetween{20};
    constexpr int kMostLooks = 250;
    for (int look = 0; look < kMostLooks && is_marked_young(attributes.version) && !stopped(); ++look) {
        auto now = origin.stat(path);
        if (!now || now->kind != attributes.kind) return;
        attributes = std::move(*now);
        if (is_marked_young(attributes.version)) std::this_thread::sleep_for(kBetween);
    }
}

}  // namespace tierfs
