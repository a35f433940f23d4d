#include "tiering/nvme/scratch.hpp"

#include <chrono>

namespace tierfs {
namespace {

constexpr std::chrono::seconds kPatience{1};

}  // namespace

Scratch::Piece::~Piece() {
    if (owner_ != nullptr) owner_->give_back();
}

void Scratch::use(Source source) {
    MutexLock lock(mutex_);
    source_ = std::move(source);
}

std::optional<Scratch::Piece> Scratch::take(std::size_t size) {
    Source source;
    {
        MutexLock lock(mutex_);
        source = source_;
    }
    if (source) {
        if (auto buffer = source(size)) return Piece(std::move(buffer), size);
    }
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    MutexLock lock(mutex_);
    while (taken_) {
        if (lock.wait_until(given_back_, deadline) == std::cv_status::timeout && taken_) return std::nullopt;
    }
    taken_ = true;
    lock.unlock();
    if (own_.size() < size) own_ = AlignedBuffer(size);
    return Piece(*this, own_.span().first(size));
}

void Scratch::give_back() {
    {
        MutexLock lock(mutex_);
        taken_ = false;
    }
    given_back_.notify_one();
}

}  // namespace tierfs
