// The screen of `tierfs top`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "fs/observe/snapshot.hpp"

namespace tierfs {

/// One picture. `interval`: a difference() over `seconds`.
struct TopView {
    Snapshot interval;
    double seconds = 1;
    std::string clock;   ///< time of day
    std::string notice;  ///< what stands in place of figures: the mount does not answer
};

/// Lines for a terminal, none wider than `width` columns, at most `height`; what matters less is left out
/// first. No control characters, whatever names the mount has. Pure.
std::vector<std::string> top_lines(const TopView& view, std::size_t width, std::size_t height);

}  // namespace tierfs
