#include "backends/nfs/handle_cache.hpp"

#include <gtest/gtest.h>

namespace tierfs::nfs {
namespace handle_cache_test {

TEST(NfsHandleCache, KeepsWhatIsUsedAndStaysWithinItsLimit) {
    HandleCache cache(64 << 10);
    cache.put("used", "handle of used");
    for (int i = 0; i < 5000; ++i) {
        cache.put("name" + std::to_string(i), std::string(32, 'h'));
        ASSERT_TRUE(cache.find("used")) << i;
        ASSERT_LE(cache.bytes(), 65U << 10);
    }
    EXPECT_EQ(cache.find("used")->handle, "handle of used");
    EXPECT_TRUE(cache.find("name4999"));
    EXPECT_FALSE(cache.find("name0"));
    cache.drop("used");
    EXPECT_FALSE(cache.find("used"));
}

}  // namespace handle_cache_test
}  // namespace tierfs::nfs
