#include "config/base/delivery.hpp"

#include <cstdlib>

#include "config/base/log.hpp"

namespace tierfs {

Result<void> may_wait_for(std::string_view what) {
    if (!Delivery::is_under_way()) return {};
    auto refused = Error{EDEADLK, "a thread that delivers answers of the origin was about to wait for " +
                                      std::string(what) + "; this is a fault of tierfs, please report it"};
    log::error(refused.message);
#ifdef TIERFS_TEST_POINTS
    log::flush();
    std::abort();
#else
    return fail(std::move(refused));
#endif
}

}  // namespace tierfs
