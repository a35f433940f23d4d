// What LeakSanitizer is not to report in the unit tests.

extern "C" const char*
__lsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier): the name it looks for

/// fuse_session_mount of libfuse 3.14 copies the mount point, and fuse_session_destroy frees it only after an
/// unmount through libfuse, which the supervisor does not do: it hands the mount on.
extern "C" const char* __lsan_default_suppressions() {  // NOLINT(bugprone-reserved-identifier)
    return "leak:fuse_session_mount\n";
}
