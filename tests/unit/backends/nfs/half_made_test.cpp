#include "backends/nfs/half_made.hpp"

#include <gtest/gtest.h>

namespace tierfs::nfs {
namespace {

TEST(HalfMade, AFileIsKnownByTheVerifierInItsTimes) {
    const std::string verifier("\x81\x02\x03\x04\x05\x06\x07\x08", 8);
    struct stat status {};
    EXPECT_FALSE(HalfMade::is_of(verifier, status));
    status.st_atim.tv_sec = 0x01020304;  // without the sign
    status.st_mtim.tv_sec = 0x05060708;
    EXPECT_TRUE(HalfMade::is_of(verifier, status));
    std::swap(status.st_atim, status.st_mtim);
    EXPECT_TRUE(HalfMade::is_of(verifier, status));
    status.st_atim.tv_sec = 0x04030281;
    status.st_mtim.tv_sec = 0x08070605;
    EXPECT_TRUE(HalfMade::is_of(verifier, status)) << "in another order of bytes";
    status.st_mtim.tv_sec += 1;
    EXPECT_FALSE(HalfMade::is_of(verifier, status)) << "somebody has dealt with it";
    EXPECT_FALSE(HalfMade::is_of("short", status));
}

}  // namespace
}  // namespace tierfs::nfs
