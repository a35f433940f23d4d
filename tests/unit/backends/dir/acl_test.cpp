#include "backends/dir/acl.hpp"

#include <gtest/gtest.h>
#include <sys/xattr.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "backends/dir/directory_origin.hpp"

namespace tierfs {
namespace acl_test {

namespace fs = std::filesystem;

struct Entry {
    unsigned tag, permissions, id = 0xffffffff;
};
constexpr unsigned kUserObject = 1, kUser = 2, kGroupObject = 4, kMask = 16, kOther = 32;

std::vector<std::byte> blob(const std::vector<Entry>& entries, unsigned version = 2) {
    std::vector<std::byte> bytes;
    const auto add = [&](unsigned value, int size) {
        for (int i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i) & 0xff));
    };
    add(version, 4);
    for (const auto& entry : entries) {
        add(entry.tag, 2);
        add(entry.permissions, 2);
        add(entry.id, 4);
    }
    return bytes;
}

/// user::rw- user:1234:rw- group::--- mask::rw- other::---: ls shows -rw-rw----.
std::vector<Entry> for_one_user(unsigned group) {
    return {{kUserObject, 6}, {kUser, 6, 1234}, {kGroupObject, group}, {kMask, 6}, {kOther, 0}};
}

TEST(PosixAcl, TheOwningGroupGetsItsEntryWithinTheMask) {
    EXPECT_EQ(owning_group_permissions(blob(for_one_user(0))), 0U);
    EXPECT_EQ(owning_group_permissions(blob(for_one_user(5))), 4U);
    EXPECT_EQ(owning_group_permissions(blob({{kUserObject, 6}, {kGroupObject, 5}, {kOther, 0}})), 5U);
}

TEST(PosixAcl, RefusesWhatIsNoAcl) {
    EXPECT_FALSE(owning_group_permissions({}));
    EXPECT_FALSE(owning_group_permissions(blob({})));
    EXPECT_FALSE(owning_group_permissions(blob({{kUserObject, 6}, {kOther, 4}})));
    EXPECT_FALSE(owning_group_permissions(blob(for_one_user(4), 1)));
    auto cut = blob(for_one_user(4));
    cut.pop_back();
    EXPECT_FALSE(owning_group_permissions(cut));
}

TEST(PosixAcl, TheOriginShowsTheOwningGroupsBitsNotTheMask) {
    std::string pattern = (fs::temp_directory_path() / "tierfs-acl-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    const fs::path base = pattern;
    const struct Cleanup {
        const fs::path& path;
        ~Cleanup() { fs::remove_all(path); }
    } cleanup{base};
    for (const char* name : {"acl", "plain"}) {
        std::ofstream(base / name) << "x";
        fs::permissions(base / name, fs::perms(0640));
    }
    const auto value = blob(for_one_user(0));
    if (::setxattr((base / "acl").c_str(), "system.posix_acl_access", value.data(), value.size(), 0) != 0)
        GTEST_SKIP() << "no POSIX ACLs here: " << std::strerror(errno);
    struct stat status {};
    ASSERT_EQ(::stat((base / "acl").c_str(), &status), 0);
    ASSERT_EQ(status.st_mode & 0777U, 0660U) << "stat shows the mask";
    auto origin = open_directory_origin(Settings{}, base.string());
    ASSERT_TRUE(origin) << origin.error().message;
    EXPECT_EQ((*origin)->stat("acl")->mode, 0600U);
    EXPECT_EQ((*origin)->stat("acl")->acl, kHasAcl | 060U) << "the mask, for who checks the list";
    EXPECT_EQ((*origin)->stat("plain")->mode, 0640U);
    EXPECT_EQ((*origin)->stat("plain")->acl, 0U);
    EXPECT_EQ((*origin)->acls(), Acls::possible);
    EXPECT_EQ((*origin)->xattr("acl", "system.posix_acl_access")->size(), value.size());
    EXPECT_EQ((*origin)->xattr_names("acl").value(), std::vector<std::string>{"system.posix_acl_access"});
    EXPECT_TRUE((*origin)->xattr_names("plain")->empty());
    EXPECT_EQ((*origin)->xattr("plain", "user.none").error().code, ENODATA);
    const auto page = (*origin)->list("", "");
    ASSERT_EQ(page->entries.size(), 2U);
    EXPECT_EQ(page->entries[0].attributes.mode, 0600U);
    EXPECT_EQ(page->entries[1].attributes.mode, 0640U);
    EXPECT_EQ(AclReader().modes_of((base / "gone").string(), status).mode, 0600U)
        << "in doubt: not the group";
}

}  // namespace acl_test
}  // namespace tierfs
