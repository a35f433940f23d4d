#include "backends/nfs/entry_memory.hpp"

#include <gtest/gtest.h>

#include "backends/nfs/change_messages.hpp"

namespace tierfs::nfs {
namespace {

using namespace std::chrono_literals;

DirectoryEntry3 entry(const std::string& name, const std::string& handle) {
    DirectoryEntry3 made;
    made.name = name;
    made.handle = handle;
    made.status.emplace();
    return made;
}

Call call(const Procedure& procedure, std::string arguments) {
    Call made;
    made.procedure = procedure;
    made.arguments = std::move(arguments);
    return made;
}

TEST(EntryMemory, AnswersEachNameOnce) {
    EntryMemory memory(1 << 20, 1h);
    memory.keep("directory", {entry("one", "file 1"), entry("two", "file 2"), entry("none", "")},
                Clock::now());
    EXPECT_EQ(memory.take("directory", "one")->handle, "file 1");
    EXPECT_FALSE(memory.take("directory", "one"));
    EXPECT_FALSE(memory.take("directory", "none"));
    EXPECT_FALSE(memory.take("another", "two"));
    EXPECT_TRUE(memory.take("directory", "two"));
    EXPECT_EQ(memory.bytes(), 0U);
}

TEST(EntryMemory, WhatIsTooOldIsWorthNothing) {
    EntryMemory memory(1 << 20, 100ms), none(1 << 20, 0ms);
    memory.keep("directory", {entry("one", "file 1")}, Clock::now() - 1s);
    EXPECT_FALSE(memory.take("directory", "one"));
    none.keep("directory", {entry("one", "file 1")}, Clock::now());
    EXPECT_FALSE(none.take("directory", "one"));
}

TEST(EntryMemory, StaysWithinItsLimit) {
    EntryMemory memory(100'000, 1h);
    for (int i = 0; i < 10'000; ++i)
        memory.keep("directory", {entry(std::to_string(i), "file")}, Clock::now());
    EXPECT_LE(memory.bytes(), 100'000U);
    EXPECT_FALSE(memory.take("directory", "0"));
    EXPECT_TRUE(memory.take("directory", "9999"));
}

TEST(EntryMemory, EveryChangeIsNoted) {
    EntryMemory memory(1 << 20, 1h);
    const auto forgets = [&](const Call& change, const std::string& directory, const std::string& name,
                             const std::string& handle) {
        memory.keep(directory, {entry(name, handle)}, Clock::now());
        memory.note(EntryMemory::changed_by(change));
        return !memory.take(directory, name);
    };
    EXPECT_TRUE(forgets(call(kSetattr, setattr_arguments("f", {})), "d", "n", "f"));
    EXPECT_TRUE(forgets(call(kRemove, name_arguments("d", "n")), "d", "n", "f2"));
    EXPECT_TRUE(forgets(call(kRmdir, name_arguments("d", "n3")), "d", "n3", "f3"));
    EXPECT_TRUE(forgets(call(kCreate, exclusive_create_arguments("d", "n4", "verifier")), "d", "n4", "f4"));
    EXPECT_TRUE(forgets(call(kMkdir, mkdir_arguments("sub", "x", {})), "d", "n5", "sub")) << "its time";
    EXPECT_TRUE(forgets(call(kRename, rename_arguments("d", "n6", "e", "m")), "d", "n6", "f6"));
    EXPECT_TRUE(forgets(call(kRename, rename_arguments("d", "n7", "e", "m7")), "e", "m7", "f7"));
    EXPECT_TRUE(forgets(call(kLink, link_arguments("f8", "e", "m8")), "d", "n8", "f8"));
    EXPECT_TRUE(forgets(call(kLink, link_arguments("f9", "e", "m9")), "e", "m9", "f10"));
    EXPECT_FALSE(forgets(call(kLookup, lookup_arguments("d", "n11")), "d", "n11", "f11"));
    EXPECT_FALSE(forgets(call(kRemove, name_arguments("e", "n12")), "d", "n12", "f12"));
}

TEST(EntryMemory, WhatWasAskedForBeforeAChangeIsWorthNothing) {
    EntryMemory memory(1 << 20, 1h);
    const auto asked = Clock::now();
    memory.note(EntryMemory::changed_by(call(kRemove, name_arguments("d", "n"))));
    memory.keep("d", {entry("n", "f")}, asked);
    EXPECT_FALSE(memory.take("d", "n"));
}

TEST(EntryMemory, ManyChangesCostItsContentAndNoMemory) {
    EntryMemory memory(1 << 20, 1h);
    const auto asked = Clock::now();
    memory.keep("d", {entry("n", "f")}, asked);
    for (std::uint64_t mark = 0; mark < 40'000; ++mark) memory.note({mark});
    EXPECT_FALSE(memory.take("d", "n"));
    memory.keep("d", {entry("n", "f")}, asked);
    EXPECT_FALSE(memory.take("d", "n"));
    memory.keep("d", {entry("n", "f")}, Clock::now() + 1ms);
    EXPECT_TRUE(memory.take("d", "n"));
}

}  // namespace
}  // namespace tierfs::nfs
