#include "fs/daemon/confinement.hpp"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace tierfs {
namespace confinement_test {

constexpr CapabilitySet bit(int capability) {
    return CapabilitySet{1} << capability;
}

CapabilitySet of(const std::string& source, bool read_only) {
    Settings settings;
    settings.source = source;
    settings.read_only = read_only;
    return daemon_capabilities(settings);
}

TEST(Confinement, EachKindOfSourceTakesWhatItsWorkTakes) {
    constexpr auto kMount = bit(CAP_SYS_ADMIN) | bit(CAP_SYS_PTRACE);
    EXPECT_EQ(of("s3://bucket", true), kMount);
    EXPECT_EQ(of("s3://bucket", false), kMount | bit(CAP_DAC_READ_SEARCH));
    for (const bool read_only : {true, false})
        EXPECT_EQ(of("nfs://host/export", read_only), kMount | bit(CAP_NET_BIND_SERVICE));
    EXPECT_EQ(of("/data", true), kMount | bit(CAP_DAC_READ_SEARCH));
    Settings packed;
    packed.source = "s3://bucket";
    packed.pack = "/packs/one";
    EXPECT_EQ(daemon_capabilities(packed), of("/data", true));
    EXPECT_EQ(of("file:///data", true), of("/data", true));
    const auto writable = of("/data", false);
    for (const int capability : {CAP_DAC_OVERRIDE, CAP_CHOWN, CAP_SETUID, CAP_LEASE, CAP_SYS_RESOURCE})
        EXPECT_NE(writable & bit(capability), 0U) << capability;
    for (const int capability : {CAP_SYS_MODULE, CAP_SYS_RAWIO, CAP_SYS_BOOT, CAP_NET_ADMIN, CAP_NET_RAW,
                                 CAP_SYS_CHROOT, CAP_SETPCAP, CAP_SYS_TIME, CAP_KILL})
        EXPECT_EQ(writable & bit(capability), 0U) << capability;
}

TEST(Confinement, WhatRootCouldNotReachKeepsOneMore) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    std::string folder = (std::filesystem::temp_directory_path() / "confinement-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    Settings settings;
    settings.source = "s3://bucket";
    settings.nvme_path = folder + "/cache";
    EXPECT_EQ(daemon_capabilities(settings), of("s3://bucket", true));
    ASSERT_EQ(::chown(folder.c_str(), 12345, 12345), 0);
    ASSERT_EQ(::chmod(folder.c_str(), 0700), 0);
    EXPECT_EQ(daemon_capabilities(settings), of("s3://bucket", true) | bit(CAP_DAC_OVERRIDE));
    std::filesystem::remove_all(folder);
}

/// In a process of its own, since there is no way back. The number of the check that failed; 0: none.
template <typename Checks>
int in_child(Checks checks) {
    const pid_t child = ::fork();
    if (child == 0) {
        if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !deny_system_calls()) ::_exit(100);
        ::_exit(checks());
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

TEST(Confinement, RefusesWhatNoFileSystemNeeds) {
    EXPECT_EQ(in_child([] {
                  const auto refused = [](long done) { return done == -1 && errno == EPERM; };
                  // With arguments that would be another error, were the calls looked at.
                  if (!refused(::mount(nullptr, nullptr, nullptr, 0, nullptr))) return 1;
                  if (!refused(::syscall(SYS_fsopen, nullptr, 0xffff))) return 2;
                  if (!refused(::syscall(SYS_bpf, 0xffff, nullptr, 0))) return 3;
                  if (!refused(::syscall(SYS_setns, -1, 0))) return 4;
                  if (!refused(::syscall(SYS_process_vm_readv, -1, nullptr, 0, nullptr, 0, 0))) return 5;
                  if (!refused(::syscall(SYS_keyctl, 0xffff))) return 6;
                  if (!refused(::syscall(SYS_pivot_root, nullptr, nullptr))) return 7;
                  if (!refused(::syscall(SYS_open_by_handle_at, -1, nullptr, 0))) return 8;
                  return 0;
              }),
              0);
}

TEST(Confinement, LeavesWhatADaemonDoes) {
    EXPECT_EQ(in_child([] {
                  if (::unshare(CLONE_FS) != 0) return 1;
                  if (::umount2("", 0) == 0 || errno != ENOENT) return 2;
                  const pid_t child = ::fork();
                  if (child == 0) {
                      ::execl("/bin/true", "true", nullptr);
                      ::_exit(1);
                  }
                  int status = 0;
                  if (::waitpid(child, &status, 0) != child || status != 0) return 3;
                  return 0;
              }),
              0);
}

}  // namespace confinement_test
}  // namespace tierfs
