// A tier in a temporary folder with an index in memory, and objects whose bytes anybody can compute.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "config/base/aligned_buffer.hpp"
#include "tests/unit/tiering/nvme/fake_index.hpp"
#include "tiering/nvme/nvme_core.hpp"

namespace tierfs::testing {

class HeapBuffer final : public Buffer {
  public:
    explicit HeapBuffer(std::size_t size) : HeapBuffer(AlignedBuffer(size), size) {}

  private:
    HeapBuffer(AlignedBuffer memory, std::size_t size)
        : Buffer(memory.span(), size), memory_(std::move(memory)) {}
    AlignedBuffer memory_;
};

inline ContentId object_id(std::uint64_t number) {
    return content_id("test", std::to_string(number), "1");
}

/// Bytes [offset, offset + length) of object `id`.
inline void fill_bytes(const ContentId& id, std::uint64_t offset, std::span<std::byte> out) {
    const auto word = [&](std::uint64_t at) { return (at / 8 + id.low) * 0x9E3779B97F4A7C15U ^ id.high; };
    std::size_t at = 0;
    for (; at < out.size() && (out.size() - at < 8 || (offset + at) % 8 != 0); ++at) {
        out[at] = static_cast<std::byte>(word(offset + at) >> (8 * ((offset + at) % 8)));
    }
    for (; out.size() - at >= 8; at += 8) {
        const std::uint64_t value = word(offset + at);
        std::memcpy(out.data() + at, &value, sizeof value);
    }
    for (; at < out.size(); ++at) {
        out[at] = static_cast<std::byte>(word(offset + at) >> (8 * ((offset + at) % 8)));
    }
}

inline BufferPtr make_piece(const ContentId& id, std::uint64_t offset, std::size_t length) {
    auto buffer = std::make_shared<HeapBuffer>(length);
    fill_bytes(id, offset, buffer->writable().first(length));
    return buffer;
}

enum class Got { miss, right, wrong };

class NvmeTest : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "tierfs-nvme-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name.data()), nullptr);
        directory_ = name;
        options_.devices = {NvmePlace::at(directory_)};
        options_.limit = 16 << 20;
    }
    void TearDown() override {
        tier_.reset();
        std::error_code ignored;
        std::filesystem::remove_all(directory_, ignored);
    }

    void open() {
        tier_.reset();
        auto opened = open_nvme_tier(options_, index_, hooks_);
        ASSERT_TRUE(opened.has_value()) << opened.error().message;
        tier_ = std::move(*opened);
    }
    void kill_and_open() {
        tier_->abandon();
        open();
    }

    void put(std::uint64_t number, std::uint64_t size) {
        const ContentId id = object_id(number);
        tier_->admit(id, size, 0, make_piece(id, 0, size));
    }
    void put_piece(std::uint64_t number, std::uint64_t size, std::uint64_t offset, std::uint64_t length) {
        const ContentId id = object_id(number);
        tier_->admit(id, size, offset, make_piece(id, offset, length));
    }
    Got get(std::uint64_t number, std::uint64_t size, std::uint64_t offset, std::uint64_t length) {
        const ContentId id = object_id(number);
        AlignedBuffer out(length);
        if (!tier_->read(id, size, offset, out.span().first(length))) return Got::miss;
        AlignedBuffer want(length);
        fill_bytes(id, offset, want.span().first(length));
        return std::equal(out.data(), out.data() + length, want.data()) ? Got::right : Got::wrong;
    }
    Got get(std::uint64_t number, std::uint64_t size) { return get(number, size, 0, size); }

    /// Waits, generously, for something that the writer thread does by itself.
    static bool eventually(const std::function<bool()>& condition) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        while (!condition()) {
            if (std::chrono::steady_clock::now() > deadline) return false;
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        return true;
    }

    std::vector<std::filesystem::path> files_with(const std::string& extension) const {
        std::vector<std::filesystem::path> result;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_)) {
            if (entry.is_regular_file() && entry.path().extension() == extension)
                result.push_back(entry.path());
        }
        std::sort(result.begin(), result.end());
        return result;
    }
    /// Bytes that extents and backing files take on the device.
    std::uint64_t disk_bytes() const {
        std::uint64_t total = 0;
        std::error_code error;
        for (std::filesystem::recursive_directory_iterator at(directory_, error), end; at != end && !error;
             at.increment(error)) {
            struct stat status {};
            if (at->path().filename() != "device" && ::lstat(at->path().c_str(), &status) == 0 &&
                S_ISREG(status.st_mode)) {
                total += static_cast<std::uint64_t>(status.st_blocks) * 512;
            }
        }
        return total;
    }

    std::filesystem::path directory_;
    FakeIndex index_;
    NvmeOptions options_;
    NvmeHooks hooks_;
    std::unique_ptr<NvmeTierForTests> tier_;
};

}  // namespace tierfs::testing
