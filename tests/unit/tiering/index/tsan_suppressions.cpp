// What ThreadSanitizer cannot see: RocksDB orders its memory with atomics, and the distribution's library is
// built without the sanitizer, so that its calls of memcpy, memcmp and write look like races. Our own frames
// are not suppressed.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
    return "called_from_lib:librocksdb.so\nrace:rocksdb::\n";
}
