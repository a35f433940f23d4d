#include "config/log.hpp"
namespace tierfs::log {
void write(Level, std::string_view) {}
bool enabled(Level) {
    return false;
}
}  // namespace tierfs::log
