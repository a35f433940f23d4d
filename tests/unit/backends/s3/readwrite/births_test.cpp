// Marks of objects that come to one place after another.
#include "backends/s3/readwrite/births.hpp"

#include <gtest/gtest.h>

namespace tierfs::s3 {
namespace births_test {

TEST(BirthsTest, FollowFromTheVersionWhereNothingIsRemembered) {
    Births one, other;
    EXPECT_EQ(one.at(17, "\"v1\""), other.at(17, "\"v1\""));
    EXPECT_NE(one.at(17, "\"v1\""), one.at(17, "\"v2\""));
}

TEST(BirthsTest, StayWhileThisMountChangesTheFile) {
    Births births;
    const auto born = births.at(17, "\"v1\"");
    births.changed(17, "\"v2\"", born);
    EXPECT_EQ(births.at(17, "\"v2\""), born);
    EXPECT_EQ(births.at(17, "\"v2\""), born);
}

TEST(BirthsTest, AreNeverThoseOfWhatWasThereBefore) {
    Births births;
    const auto first = births.at(17, "\"v1\"");
    births.left(17);
    const auto second = births.at(17, "\"v2\"");
    const auto again = births.at(17, "\"v1\"");  // the same bytes, put once more
    EXPECT_NE(first, second);
    EXPECT_NE(first, again);
    EXPECT_NE(second, again);
    EXPECT_EQ(births.at(17, "\"v1\""), again);
}

TEST(BirthsTest, OfWhatIsMadeAreAllDifferent) {
    Births births;
    const auto one = births.made(), other = births.made();
    EXPECT_NE(one, other);
    births.changed(17, "\"v1\"", one);
    EXPECT_EQ(births.at(17, "\"v1\""), one);
}

TEST(BirthsTest, AreForgottenWhenThereAreTooMany) {
    Births births;
    const auto made = births.made();
    births.changed(17, "\"v1\"", made);
    for (std::uint64_t place = 100; place < 100 + Births::kMost; ++place) births.left(place);
    EXPECT_EQ(births.at(17, "\"v1\""), Births().at(17, "\"v1\""));
}

}  // namespace births_test
}  // namespace tierfs::s3
