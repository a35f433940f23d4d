// How long the kernel may keep that there is no such name.
#include "tests/unit/fs/metadata/names_fixture.hpp"

namespace tierfs {
namespace absence_test {

class AbsentNames : public NamesFixture {};

TEST_F(AbsentNames, AbsenceIsPassedOnForAsLongAsItIsKnown) {
    origin_->put("d/a", "v1");
    open();
    const NodeId directory = find(kRootNode, "d").node;
    EXPECT_EQ(code(lookup(directory, "no")), ENOENT);
    EXPECT_EQ(names_->absent_for(directory, "no"), milliseconds(5000));
    pass(milliseconds(3000));
    EXPECT_EQ(code(lookup(directory, "no")), ENOENT);
    EXPECT_EQ(names_->absent_for(directory, "no"), milliseconds(2000));
    pass(milliseconds(2000));
    EXPECT_EQ(names_->absent_for(directory, "no"), milliseconds(0)) << "not known any more";
    EXPECT_EQ(names_of(directory).size(), 1U);
    EXPECT_EQ(names_->absent_for(directory, "other"), milliseconds(5000))
        << "the listing, but no longer than";
    pass(milliseconds(59000));
    EXPECT_EQ(code(lookup(directory, "other")), ENOENT);
    EXPECT_EQ(names_->absent_for(directory, "other"), milliseconds(1000)) << "the rest of the listing's time";
    pass(milliseconds(1000));
    origin_->fail_with(EIO);
    EXPECT_EQ(code(lookup(directory, "other")), ENOENT);
    EXPECT_EQ(names_->absent_for(directory, "other"), milliseconds(1000)) << "stale";
    pass(milliseconds(60000));
    EXPECT_EQ(code(lookup(directory, "other")), EIO);
    EXPECT_EQ(names_->absent_for(directory, "other"), milliseconds(0));
}

TEST_F(AbsentNames, AbsenceIsNotPassedOnWithoutATtl) {
    open(milliseconds(0));
    EXPECT_EQ(code(lookup(kRootNode, "no")), ENOENT);
    EXPECT_EQ(names_->absent_for(kRootNode, "no"), milliseconds(0));
}

}  // namespace absence_test
}  // namespace tierfs
