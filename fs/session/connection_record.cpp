#include "fs/session/connection_record.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "config/base/fault_point.hpp"
#include "config/base/time.hpp"
#include "fs/session/init_patch.hpp"

namespace tierfs {

namespace {

constexpr std::size_t kHeaderBytes = 4096;
/// Changes with each change of Header or Slot.
constexpr std::uint64_t kForm = 0x7466636f6e6e0001;
constexpr unsigned kIndexBits = 23;  // of a ticket: 0 to kMostOpens
constexpr std::uint64_t kIndexMask = (1ULL << kIndexBits) - 1;

std::int64_t boot_time_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_BOOTTIME, &now);
    return to_ns(now);
}

}  // namespace

struct ConnectionRecord::Header {
    const std::uint64_t form = kForm;  ///< first in any version
    std::int64_t started_ns = boot_time_ns();
    std::atomic<std::uint64_t> names_session{0};
    std::atomic<std::uint64_t> restarts{0}, reloads{0};
    std::array<char, 64> index_identity{};
    std::atomic<std::uint32_t> opens_without_asking{0};
    std::atomic<std::uint32_t> slots_used{0};  ///< no slot from here on was ever used
    std::atomic<std::uint32_t> confirmed{0};
    std::uint32_t init_size = 0;
    std::uint32_t stack_depth = 0;
    std::array<std::byte, 512> init{};
    // Last: where an older daemon made the record they are 0.
    std::atomic<std::uint32_t> checks_acls{0}, reads_unaligned{0};
};

struct ConnectionRecord::Slot {
    std::atomic<std::uint64_t> node;  ///< 0: free. Written last when taken, first when freed
    std::uint64_t unique;
    std::int32_t backing_id;
    std::uint32_t turn;  ///< grows with each use
    std::uint64_t bytes;
};

ConnectionRecord::ConnectionRecord(FileDescriptor file, Header* header)
    : file_(std::move(file)), header_(header) {
    static_assert(sizeof(Header) <= kHeaderBytes && sizeof(Slot) == 32);
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
}

ConnectionRecord::~ConnectionRecord() {
    ::munmap(header_, kHeaderBytes + kMostOpens * sizeof(Slot));
}

Result<void*> ConnectionRecord::map(const FileDescriptor& file) {
    constexpr std::size_t size = kHeaderBytes + kMostOpens * sizeof(Slot);
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) return fail(system_error(errno, "memory for the connection's record"));
    return memory;
}

Result<std::unique_ptr<ConnectionRecord>> ConnectionRecord::make() {
    constexpr std::size_t size = kHeaderBytes + kMostOpens * sizeof(Slot);
    FileDescriptor file(TIERFS_FAULT_CALL("record.make", ::memfd_create("tierfs-connection", MFD_CLOEXEC)));
    if (!file || TIERFS_FAULT_CALL("record.size", ::ftruncate(file.get(), size)) != 0)
        return fail(system_error(errno, "memory for the connection's record"));
    const auto memory = map(file);
    if (!memory) return fail(memory.error());
    return std::unique_ptr<ConnectionRecord>(new ConnectionRecord(std::move(file), new (*memory) Header()));
}

Result<std::unique_ptr<ConnectionRecord>> ConnectionRecord::attach(FileDescriptor file) {
    struct stat found {};
    std::uint64_t form = 0;
    if (::fstat(file.get(), &found) != 0 || ::pread(file.get(), &form, sizeof(form), 0) != sizeof(form))
        return fail(system_error(errno, "the connection's record"));
    if (form != kForm || static_cast<std::size_t>(found.st_size) != kHeaderBytes + kMostOpens * sizeof(Slot))
        return fail(EPROTO, "this version keeps the record of the connection in another form");
    const auto memory = map(file);
    if (!memory) return fail(memory.error());
    return std::unique_ptr<ConnectionRecord>(
        new ConnectionRecord(std::move(file), static_cast<Header*>(*memory)));
}

void ConnectionRecord::keep_init(std::span<const std::byte> request, std::uint32_t stack_depth) {
    if (request.size() > header_->init.size()) return;
    std::memcpy(header_->init.data(), request.data(), request.size());
    header_->init_size = static_cast<std::uint32_t>(request.size());
    header_->stack_depth = stack_depth;
}

void ConnectionRecord::confirm_init() {
    header_->confirmed.store(1, std::memory_order_release);
}

std::span<const std::byte> ConnectionRecord::init() const {
    if (header_->confirmed.load(std::memory_order_acquire) == 0) return {};
    return {header_->init.data(), header_->init_size};
}

bool ConnectionRecord::can_be_taken_over() const {
    const auto offer = read_init_offer(init());
    return offer && (offer->flags & kInitExt) != 0 && (offer->flags2 & kInit2HasResend) != 0;
}

std::uint32_t ConnectionRecord::stack_depth() const {
    return header_->stack_depth;
}

void ConnectionRecord::set_opens_without_asking() {
    header_->opens_without_asking = 1;
}

void ConnectionRecord::set_reads_unaligned() {
    header_->reads_unaligned = 1;
}

bool ConnectionRecord::reads_unaligned() const {
    return header_->reads_unaligned != 0;
}

void ConnectionRecord::set_checks_acls() {
    header_->checks_acls = 1;
}

bool ConnectionRecord::checks_acls() const {
    return header_->checks_acls != 0;
}

bool ConnectionRecord::opens_without_asking() const {
    return header_->opens_without_asking != 0;
}

void ConnectionRecord::set_names_session(std::uint64_t session) {
    header_->names_session = session;
}

std::uint64_t ConnectionRecord::names_session() const {
    return header_->names_session;
}

void ConnectionRecord::set_index_identity(const std::string& identity) {
    auto& kept = header_->index_identity;
    kept = {};
    std::copy_n(identity.begin(), std::min(identity.size(), kept.size()), kept.begin());
}

std::string ConnectionRecord::index_identity() const {
    const auto& kept = header_->index_identity;
    return {kept.begin(), std::find(kept.begin(), kept.end(), '\0')};
}

void ConnectionRecord::count_reload() {
    ++header_->reloads;
}

std::uint64_t ConnectionRecord::reloads() const {
    return header_->reloads;
}

void ConnectionRecord::count_restart() {
    ++header_->restarts;
}

std::uint64_t ConnectionRecord::restarts() const {
    return header_->restarts;
}

std::int64_t ConnectionRecord::started_ns() const {
    return header_->started_ns;
}

ConnectionRecord::Slot& ConnectionRecord::slot(std::uint32_t index) const {
    auto* const memory = reinterpret_cast<std::byte*>(header_) + kHeaderBytes;    // NOLINT: shared memory
    return *reinterpret_cast<Slot*>(memory + std::size_t{index} * sizeof(Slot));  // NOLINT
}

ConnectionRecord::Open ConnectionRecord::open_in(std::uint32_t index) const {
    const Slot& found = slot(index);
    return {std::uint64_t{found.turn} << kIndexBits | (index + 1), found.node.load(), found.unique,
            found.backing_id, found.bytes};
}

void ConnectionRecord::look_for_free() {
    has_looked_ = true;
    for (std::uint32_t index = header_->slots_used; index-- > 0;) {
        if (slot(index).node.load() == 0) free_.push_back(index);
    }
}

std::uint64_t ConnectionRecord::add_open(std::uint64_t node, std::uint64_t unique, std::int32_t backing_id,
                                         std::uint64_t bytes) {
    if (!has_looked_) look_for_free();
    std::uint32_t index = 0;
    if (!free_.empty()) {
        index = free_.back();
        free_.pop_back();
    } else {
        index = header_->slots_used;
        if (index >= kMostOpens) return 0;
        header_->slots_used = index + 1;
    }
    Slot& taken = slot(index);
    ++taken.turn;
    taken.unique = unique & ~kResent;
    taken.backing_id = backing_id;
    taken.bytes = bytes;
    taken.node.store(node, std::memory_order_release);
    return open_in(index).ticket;
}

bool ConnectionRecord::remove_open(std::uint64_t ticket) {
    const std::uint64_t number = ticket & kIndexMask;
    if (number == 0 || number > header_->slots_used) return false;
    const auto index = static_cast<std::uint32_t>(number - 1);
    const Open found = open_in(index);
    if (found.node == 0 || found.ticket != ticket) return false;
    slot(index).node.store(0, std::memory_order_release);
    if (has_looked_) free_.push_back(index);
    return true;
}

void ConnectionRecord::remove_all_opens() {
    for (const Open& open : opens()) remove_open(open.ticket);
}

std::vector<ConnectionRecord::Open> ConnectionRecord::opens() const {
    std::vector<Open> found;
    for (std::uint32_t index = 0; index < header_->slots_used; ++index) {
        if (auto open = open_in(index); open.node != 0) found.push_back(open);
    }
    return found;
}

std::optional<ConnectionRecord::Open> ConnectionRecord::find_open(std::uint64_t unique) const {
    for (std::uint32_t index = 0; index < header_->slots_used; ++index) {
        if (auto open = open_in(index); open.node != 0 && open.unique == (unique & ~kResent)) return open;
    }
    return std::nullopt;
}

}  // namespace tierfs
