#include "tiering/prefetch/neighbours.hpp"

#include <algorithm>
#include <utility>

namespace tierfs {

Neighbours::~Neighbours() {
    stop();
    if (thread_.joinable()) thread_.join();
}

void Neighbours::join_if_ended() {
    if (ended_ && thread_.joinable()) thread_.join();
}

void Neighbours::start(std::function<void()> done) {
    done_ = std::move(done);
    identity_ = listings_.origin().identity();
    thread_ = std::thread([this] {
        run();
        ended_ = true;
        done_();
    });
}

void Neighbours::stop() {
    MutexLock lock(mutex_);
    stopped_ = true;
    wake_.notify_all();
}

std::shared_ptr<Neighbours::Directory> Neighbours::directory_of(std::string_view path,
                                                                Clock::time_point now) {
    auto found = std::find_if(directories_.begin(), directories_.end(),
                              [&](const auto& directory) { return directory->path == path; });
    const auto age = [&] { return std::chrono::floor<std::chrono::milliseconds>(now - (*found)->listed); };
    if (found != directories_.end() && (*found)->walk && age() > options_.max_age) {
        directories_.erase(found);
        found = directories_.end();
    }
    if (found != directories_.end()) {
        directories_.splice(directories_.begin(), directories_, found);
        return directories_.front();
    }
    auto directory = std::make_shared<Directory>();
    directory->path = path;
    directories_.push_front(directory);
    bound(directory.get());
    return directory;
}

void Neighbours::bound(const Directory* in_use) {
    std::size_t files = 0;
    for (const auto& directory : directories_) files += directory->files.size();
    while (directories_.size() > 1 && (directories_.size() > kDirectories || files > kFiles)) {
        if (directories_.back().get() == in_use) return;
        files -= directories_.back()->files.size();
        directories_.pop_back();
    }
}

bool Neighbours::is_promising(const std::vector<Early>& early) {
    if (early.size() < kEarly || early.back().read - early.front().read > kRecently) return false;
    unsigned inversions = 0;
    for (std::size_t i = 0; i < early.size(); ++i) {
        for (std::size_t j = i + 1; j < early.size(); ++j)
            inversions += early[j].path < early[i].path ? 1 : 0;
    }
    return inversions <= 1;
}

void Neighbours::read(const ObjectRef& object, Clock::time_point now) {
    if (options_.window == 0) return;
    std::vector<ListedFile> next;
    std::optional<DirectoryRuns::Wanted> wanted;
    std::shared_ptr<Directory> directory;
    {
        MutexLock lock(mutex_);
        if (stopped_) return;
        directory = directory_of(folder_of(object.path), now);
        if (!directory->walk) {
            if (!directory->early.empty() && directory->early.back().path == object.path) return;
            if (directory->early.size() == kEarly) directory->early.erase(directory->early.begin());
            directory->early.push_back({object.path, ++reads_});
            if (!is_promising(directory->early)) return;
            directory->walk =
                std::make_unique<FileWalk>(listings_, directory->path, FileWalk::Below::without);
            directory->wanted = true;
            directory->listed = now;
            wake_.notify_all();
            return;
        }
        if (directory->wanted && directory->early.size() < kWhileListing &&
            (directory->files.empty() || directory->files.back().path < object.path)) {
            directory->early.push_back({object.path, ++reads_});
            return;
        }
        next = observe(*directory, object.path, wanted);
    }
    for (const ListedFile& file : next) {
        if (!file.fetchable || offer_(object_of(identity_, file))) continue;
        MutexLock lock(mutex_);
        const auto at =
            std::lower_bound(directory->files.begin(), directory->files.end(), file.path,
                             [](const ListedFile& a, const std::string& b) { return a.path < b; });
        directory->runs.put_back(*wanted, static_cast<std::uint64_t>(at - directory->files.begin()));
        return;
    }
}

std::vector<ListedFile> Neighbours::observe(Directory& directory, const std::string& path,
                                            std::optional<DirectoryRuns::Wanted>& wanted) {
    const auto at = std::lower_bound(directory.files.begin(), directory.files.end(), path,
                                     [](const ListedFile& a, const std::string& b) { return a.path < b; });
    if (at == directory.files.end() || at->path != path) return {};
    const std::uint64_t mean = std::max<std::uint64_t>(1, directory.bytes / directory.files.size());
    wanted = directory.runs.observe(static_cast<std::uint64_t>(at - directory.files.begin()),
                                    std::min(options_.window / mean, kMostAhead));
    if (directory.more && !directory.wanted && directory.runs.horizon() > directory.files.size()) {
        directory.wanted = true;
        wake_.notify_all();
    }
    std::vector<ListedFile> next;
    if (!wanted) return next;
    if (wanted->end > directory.files.size()) {  // the rest when it is listed
        directory.runs.put_back(*wanted, std::max<std::uint64_t>(wanted->begin, directory.files.size()));
        wanted->end = directory.files.size();
    }
    for (std::uint64_t i = wanted->begin; i < wanted->end; i += wanted->step)
        next.push_back(directory.files[i]);
    return next;
}

void Neighbours::run() {
    MutexLock lock(mutex_);
    while (!stopped_) {
        const auto found = std::find_if(directories_.begin(), directories_.end(),
                                        [](const auto& directory) { return directory->wanted; });
        if (found == directories_.end()) {
            lock.wait(wake_);
            continue;
        }
        const std::shared_ptr<Directory> directory = *found;
        std::vector<ListedFile> files;
        lock.unlock();
        const auto listed = directory->walk->next(files);  // nobody else moves it
        lock.lock();
        directory->wanted = false;
        directory->more = listed && !directory->walk->over();
        add_page(*directory, std::move(files));
    }
}

void Neighbours::add_page(Directory& directory, std::vector<ListedFile> files) {
    for (ListedFile& file : files) {
        directory.bytes += file.size;
        directory.files.push_back(std::move(file));
    }
    if (directory.files.size() > kFilesOfOne) {
        const std::size_t dropped = directory.files.size() / 2;
        for (std::size_t i = 0; i < dropped; ++i) directory.bytes -= directory.files[i].size;
        directory.files.erase(directory.files.begin(),
                              directory.files.begin() + static_cast<std::ptrdiff_t>(dropped));
        directory.runs.renumber(dropped);
    }
    bound(&directory);
    // What was read meanwhile is where runs begin; if that is further on, so is the listing.
    for (Early& one : std::exchange(directory.early, {})) {
        if (directory.more && (directory.files.empty() || directory.files.back().path < one.path)) {
            directory.early.push_back(std::move(one));
            continue;
        }
        std::optional<DirectoryRuns::Wanted> wanted;
        observe(directory, one.path, wanted);
        if (wanted) directory.runs.put_back(*wanted, wanted->begin);
    }
    if (!directory.early.empty()) directory.wanted = true;
}

}  // namespace tierfs
