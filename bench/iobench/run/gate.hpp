// A gate at which worker processes wait until all of them are ready to begin.
#pragma once

#include <semaphore.h>

#include <cerrno>
#include <ctime>

#include "bench/iobench/run/workers.hpp"

namespace tierfs::iobench {

/// For what is prepared in a worker (files open, memory there) and must not be timed: workers wait here, the
/// parent gathers them, drops caches, and opens. For one use. The semaphores are never destroyed: a worker
/// that was killed may hold one, and they own nothing outside the mapping.
class Gate {
  public:
    explicit Gate(unsigned workers) : workers_(workers), semaphores_(1) {
        sem_init(&semaphores_[0].ready, 1, 0);
        sem_init(&semaphores_[0].go, 1, 0);
    }

    /// A worker's: says that it is ready, returns when the gate is open.
    void wait() {
        sem_post(&semaphores_[0].ready);
        while (sem_wait(&semaphores_[0].go) != 0 && errno == EINTR) {
        }
    }

    /// The parent's: returns when all are ready, or with the error of one that has ended before.
    Result<void> gather(Workers& workers) {
        for (unsigned come = 0; come < workers_;) {
            timespec limit{};
            clock_gettime(CLOCK_REALTIME, &limit);
            limit.tv_sec += 1;
            if (sem_timedwait(&semaphores_[0].ready, &limit) == 0) {
                ++come;
            } else if (errno != EINTR) {
                if (auto alive = workers.check(); !alive) return alive;
            }
        }
        return {};
    }

    void open() {
        for (unsigned i = 0; i < workers_; ++i) sem_post(&semaphores_[0].go);
    }

  private:
    struct Semaphores {
        sem_t ready, go;
    };
    unsigned workers_;
    Shared<Semaphores> semaphores_;
};

}  // namespace tierfs::iobench
