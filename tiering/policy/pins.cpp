#include "tiering/policy/pins.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "config/base/file_descriptor.hpp"
#include "config/base/log.hpp"
#include "config/base/units.hpp"

namespace tierfs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "pins";

Result<std::string> read_all(const fs::path& path) {
    const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file) return fail(system_error(errno, path.native()));
    std::string text;
    std::string piece(64U << 10U, '\0');
    while (text.size() <= kLargestPinFile) {
        const auto got = ::read(file.get(), piece.data(), piece.size());
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(system_error(errno, path.native()));
        if (got == 0) return text;
        text.append(piece, 0, static_cast<std::size_t>(got));
    }
    return fail(EBADMSG, path.native() + " is too large");
}

Result<void> write_all(int file, std::string_view text, const fs::path& path) {
    while (!text.empty()) {
        const auto written = ::write(file, text.data(), text.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return fail(system_error(errno, path.native()));
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    return {};
}

/// Whole or not at all, and for good.
Result<void> replace(const fs::path& folder, const std::string& text) {
    const fs::path path = folder / kName;
    const fs::path fresh = folder / (std::string(kName) + ".new");
    const auto failed = [&] { return fail(system_error(errno, path.native())); };
    const FileDescriptor file(
        ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return failed();
    if (auto written = write_all(file.get(), text, path); !written) return written;
    if (::fdatasync(file.get()) != 0 || ::rename(fresh.c_str(), path.c_str()) != 0) return failed();
    const FileDescriptor names(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!names || ::fsync(names.get()) != 0) return failed();
    return {};
}

std::string shown_path(std::string_view path) {
    return "/" + std::string(path);
}

}  // namespace

Pins::Pins(std::vector<fs::path> folders) : folders_(std::move(folders)) {
    PinFile newest;
    for (const fs::path& folder : folders_) load(folder, newest);
    MutexLock lock(mutex_);
    pins_ = std::move(newest.pins);
    sequence_ = newest.sequence;
    for (const auto& [path, size] : pins_) {
        bytes_ += size.bytes;
        files_ += size.files;
    }
    if (!pins_.empty()) generation_ = 1;
}

void Pins::load(const fs::path& folder, PinFile& newest) {
    const fs::path path = folder / kName;
    const auto text = read_all(path);
    if (!text) {
        if (text.error().code != ENOENT) log::warning("pins: " + text.error().message);
        return;
    }
    auto parsed = parse_pins(*text);
    if (parsed) {
        if (parsed->sequence >= newest.sequence) newest = std::move(*parsed);
        return;
    }
    if (parsed.error().code == EPROTO) {
        MutexLock lock(mutex_);
        foreign_ = true;
    } else {
        std::error_code ignored;
        fs::rename(path, folder / "pins.damaged", ignored);
    }
    log::error("pins: " + path.native() + " " + parsed.error().message + "; what it pins is not pinned now");
}

Result<void> Pins::may_change() const {
    if (!foreign_) return {};
    return fail(EPROTO,
                "the file \"pins\" in the cache folder was written by another version of tierfs: use "
                "that one, or remove the file and pin again");
}

PinTable::const_iterator Pins::find_covering(std::string_view path) const {
    if (pins_.empty()) return pins_.end();
    if (const auto root = pins_.find(std::string_view()); root != pins_.end()) return root;
    for (std::size_t slash = path.find('/'); slash != std::string_view::npos;
         slash = path.find('/', slash + 1)) {
        if (const auto found = pins_.find(path.substr(0, slash)); found != pins_.end()) return found;
    }
    return pins_.find(path);
}

std::optional<std::string> Pins::covering(std::string_view path) const {
    MutexLock lock(mutex_);
    const auto found = find_covering(path);
    return found == pins_.end() ? std::nullopt : std::optional(found->first);
}

std::pair<PinTable::iterator, PinTable::iterator> Pins::below(const std::string& path) {
    if (path.empty()) return {pins_.begin(), pins_.end()};
    // What begins with "path/" lies together: '0' is the character after the slash.
    return {pins_.lower_bound(path + '/'), pins_.lower_bound(path + '0')};
}

PinTable::iterator Pins::take_out(PinTable::iterator pin) {
    bytes_ -= pin->second.bytes;
    files_ -= pin->second.files;
    before_.emplace_back(pin->first, pin->second);
    return pins_.erase(pin);
}

void Pins::changed() {
    std::uint32_t next = generation_.load(std::memory_order_relaxed) + 1;
    if (next == 0) next = 1;
    generation_.store(next, std::memory_order_release);
}

Result<Pins::Added> Pins::add(const std::string& path, const PinSize& size, std::uint64_t limit) {
    MutexLock lock(mutex_);
    if (auto may = may_change(); !may) return fail(may.error());
    if (path.size() > kLongestPinPath) return fail(ENAMETOOLONG, "is too long to be pinned");
    if (find_covering(path) != pins_.end()) return Added::before;
    const auto [first, last] = below(path);
    std::uint64_t others = bytes_;
    for (auto pin = first; pin != last; ++pin) others -= pin->second.bytes;
    const std::uint64_t left = limit - std::min(limit, others);
    if (size.bytes > left) {
        return fail(ENOSPC, "needs " + format_size(size.bytes) + "; of the " + format_size(limit) +
                                " that may be pinned (pin.limit) " + format_size(left) +
                                " are left: unpin something, pin less, or raise pin.limit");
    }
    if (first == last && pins_.size() >= kMostPins) {
        return fail(ENOSPC, "is one path more than the " + std::to_string(kMostPins) +
                                " that may be pinned: pin directories instead of files");
    }
    for (auto pin = first; pin != last;) pin = take_out(pin);
    pins_.emplace(path, size);
    bytes_ += size.bytes;
    files_ += size.files;
    before_.emplace_back(path, std::nullopt);
    changed();
    return Added::yes;
}

Result<PinSize> Pins::remove(const std::string& path) {
    MutexLock lock(mutex_);
    if (auto may = may_change(); !may) return fail(may.error());
    const auto covering = find_covering(path);
    if (covering != pins_.end() && covering->first != path)
        return fail(EINVAL, "is pinned as a part of " + shown_path(covering->first) + ": unpin that");
    PinSize sum;
    std::vector<PinTable::iterator> going;
    if (const auto own = pins_.find(path); own != pins_.end()) going.push_back(own);
    const auto [first, last] = below(path);
    for (auto pin = first; pin != last; ++pin) {
        if (going.empty() || going.front() != pin) going.push_back(pin);
    }
    if (going.empty()) return fail(ENOENT, "is not pinned");
    for (const auto pin : going) {
        sum.files += pin->second.files;
        sum.bytes += pin->second.bytes;
        take_out(pin);
    }
    changed();
    return sum;
}

void Pins::take_back() {
    for (auto change = before_.rbegin(); change != before_.rend(); ++change) {
        if (const auto found = pins_.find(change->first); found != pins_.end()) {
            bytes_ -= found->second.bytes;
            files_ -= found->second.files;
            pins_.erase(found);
        }
        if (!change->second) continue;
        bytes_ += change->second->bytes;
        files_ += change->second->files;
        pins_.emplace(change->first, *change->second);
    }
    before_.clear();
    changed();
}

Result<void> Pins::commit() {
    const MutexLock alone(writing_);
    std::string text;
    decltype(before_) changes;
    {
        MutexLock lock(mutex_);
        if (lost_) return fail(*std::exchange(lost_, std::nullopt));
        changes = std::exchange(before_, {});
        if (changes.empty() || folders_.empty()) return {};
        text = format_pins({++sequence_, pins_});
    }
    std::optional<Error> first;
    std::size_t written = 0;
    for (const fs::path& folder : folders_) {
        const auto done = replace(folder, text);
        written += done ? 1 : 0;
        if (!done && !first) first = done.error();
    }
    if (first) log::error("pins: " + first->message);
    if (written > 0) return {};
    MutexLock lock(mutex_);
    const Error error{first->code, "the pins cannot be written down: " + first->message};
    // What others changed meanwhile stands on what is taken back.
    if (!before_.empty()) lost_ = error;
    before_.insert(before_.begin(), changes.begin(), changes.end());
    take_back();
    return fail(error);
}

Pins::Totals Pins::totals() const {
    MutexLock lock(mutex_);
    return {pins_.size(), files_, bytes_};
}

std::vector<std::string> Pins::paths() const {
    MutexLock lock(mutex_);
    std::vector<std::string> all;
    all.reserve(pins_.size());
    for (const auto& [path, size] : pins_) all.push_back(path);
    return all;
}

}  // namespace tierfs
