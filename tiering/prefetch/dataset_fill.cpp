#include "tiering/prefetch/dataset_fill.hpp"

#include <cerrno>
#include <vector>

#include "config/log.hpp"

namespace tierfs {
namespace {

/// One file may be too large where others still fit.
constexpr unsigned kRefusals = 32;

}  // namespace

DatasetFill::~DatasetFill() {
    stop();
    if (thread_.joinable()) thread_.join();
}

void DatasetFill::start(std::function<void()> done) {
    done_ = std::move(done);
    thread_ = std::thread([this] { run(); });
}

void DatasetFill::stop() {
    stopped_ = true;
    MutexLock lock(mutex_);
    wake_.notify_all();
}

bool DatasetFill::pause(std::chrono::milliseconds time) {
    MutexLock lock(mutex_);
    if (!stopped_) (void)lock.wait_for(wake_, time);
    return !stopped_;
}

void DatasetFill::run() {
    std::vector<std::string> folders{std::string()};
    while (!folders.empty() && !stopping()) {
        const std::string path = std::move(folders.back());
        folders.pop_back();
        if (!walk_directory(path, folders)) break;
    }
    done_();
}

bool DatasetFill::walk_directory(const std::string& path, std::vector<std::string>& folders) {
    std::vector<std::string> found;
    std::string token;
    do {
        const auto page = origin_.list(path, token);
        if (stopping()) return false;
        if (!page && (page.error().code == ENOENT || page.error().code == ENOTDIR)) break;
        if (!page) {
            log::warning("filling the cache ends: " + page.error().message);
            return false;
        }
        for (const DirectoryEntry& entry : page->entries) {
            std::string inner = path.empty() ? entry.name : path + '/' + entry.name;
            if (entry.attributes.kind == ObjectKind::directory) {
                found.push_back(std::move(inner));
            } else if (entry.attributes.kind == ObjectKind::file && !offer(inner, entry.attributes)) {
                return false;
            }
        }
        token = page->next;
    } while (!token.empty());
    folders.insert(folders.end(), std::make_move_iterator(found.rbegin()),
                   std::make_move_iterator(found.rend()));
    return true;
}

bool DatasetFill::offer(const std::string& path, const Attributes& attributes) {
    if (attributes.size == 0 || attributes.archived) return !stopping();
    auto object = std::make_shared<ObjectRef>();
    object->content = content_id(origin_.identity(), path, attributes.version);
    object->path = path;
    object->version = attributes.version;
    object->size = attributes.size;
    const Offered offered = offer_(object);
    if (stopping()) return false;
    refused_ = offered == Offered::full ? refused_ + 1 : 0;
    if (offered == Offered::taken) bytes_.fetch_add(attributes.size, std::memory_order_relaxed);
    return refused_ < kRefusals;
}

}  // namespace tierfs
