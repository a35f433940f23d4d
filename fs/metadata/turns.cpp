#include "fs/metadata/turns.hpp"

namespace tierfs {

void Turns::take(NodeId directory) {
    MutexLock lock(mutex_);
    while (!taken_.insert(directory).second) lock.wait(given_);
}

void Turns::give(NodeId directory) {
    MutexLock lock(mutex_);
    taken_.erase(directory);
    given_.notify_all();
}

}  // namespace tierfs
