// Peak throughput of a device.
#pragma once

#include <chrono>
#include <string>

#include "config/base/result.hpp"

namespace tierfs::iobench {

constexpr unsigned kPeakReaders = 8;
constexpr std::size_t kPeakRead = 4 << 20;
constexpr std::chrono::milliseconds kPeakTime{2000};

/// MB/s (10^6 bytes) that kPeakReaders processes get together, each with a read of kPeakRead in flight, in
/// order from the beginning of the device, or of a large file on it, and again when they reach its end;
/// O_DIRECT, so that no page cache takes part. Only reads. What was never written, or was trimmed, may come
/// faster than the device can read: a large file of real data says more than such a device.
///
/// Errors name the path: no permission, smaller than one read, a file system without O_DIRECT.
Result<double> measure_peak(const std::string& path, std::chrono::milliseconds time = kPeakTime);

}  // namespace tierfs::iobench
