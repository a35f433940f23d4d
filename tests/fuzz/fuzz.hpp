// Shared parts of the fuzzers. Each fuzzer is one file NAME_fuzzer.cpp whose first line names the library it
// links
// ("// floor: config"); README.md says how they are built and run.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace tierfs::fuzz {

/// A property that must hold for whatever input: ends the process, which libFuzzer reports as a finding.
inline void require(bool holds, const char* property) {
    if (holds) return;
    std::fprintf(stderr, "property broken: %s\n", property);
    std::abort();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
    return {reinterpret_cast<const char*>(data), size};
}

/// The first line, without its end; `text` goes on behind it. For inputs of several parts that a person can
/// read.
inline std::string_view take_line(std::string_view& text) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    return line;
}

/// A regular file in memory, for parsers that take a path.
class MemoryFile {
  public:
    explicit MemoryFile(std::string_view text) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
        require(descriptor_ >= 0, "memfd_create works");
        require(::write(descriptor_, text.data(), text.size()) == static_cast<ssize_t>(text.size()),
                "a file in memory takes the input");
    }
    ~MemoryFile() { ::close(descriptor_); }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;
    [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

  private:
    int descriptor_;
};

/// A folder of this process below TMPDIR; removed at the end of the scope, but not by a finding.
class Folder {
  public:
    Folder() {
        std::string name = (std::filesystem::temp_directory_path() / "tierfs-fuzz-XXXXXX").string();
        require(::mkdtemp(name.data()) != nullptr, "a folder can be made");
        path_ = name;
    }
    ~Folder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

}  // namespace tierfs::fuzz
