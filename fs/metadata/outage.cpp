#include "fs/metadata/outage.hpp"

namespace tierfs {

bool Outage::is_on() {
    if (origin_.stats().reach.why.empty()) return false;
    if (!is_asking_.exchange(true)) {
        workers_.post([this](bool canceled) {
            if (!canceled) (void)origin_.ping();
            is_asking_ = false;
        });
    }
    return true;
}

}  // namespace tierfs
