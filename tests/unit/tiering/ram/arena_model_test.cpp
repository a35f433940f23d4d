// The arena against a map of pages: what is taken, by whom, and where a piece could still go.
#include <algorithm>
#include <cstring>

#include "tests/unit/model.hpp"
#include "tiering/ram/arena.hpp"

namespace tierfs {
namespace arena_model_test {

struct CountingListener final : FreeListener {
    std::size_t calls = 0;
    void memory_freed() noexcept override { ++calls; }
};

class ArenaModel {
  public:
    explicit ArenaModel(std::uint32_t pages)
        : listener_(std::make_shared<CountingListener>()),
          arena_(*Arena::create(std::uint64_t{pages} * Arena::kPage + 17, listener_)),
          taken_(pages, false) {
        std::vector<ArenaBufferPtr> all;
        while (auto page = arena_->allocate(1)) {
            if (base_ == nullptr || page->writable().data() < base_) base_ = page->writable().data();
            all.push_back(std::move(page));
        }
        RC_ASSERT(all.size() == pages);
        all.clear();
        peak_ = arena_->peak();
        freed_ = listener_->calls;
    }

    void run(const model::Command& command) {
        switch (command.kind) {
            case 0:
                allocate(1 + (command.a * 7U + command.b) % (3 * kBlockSize), command.c);
                break;
            case 1:
                allocate(1 + (std::size_t{command.a} * 256 + command.b) % (Arena::kLargest + 5000),
                         command.c);
                break;
            case 2:
                free(command.a);
                break;
            default:
                use(command);
        }
        RC_ASSERT(arena_->in_use() == in_use_);
        RC_ASSERT(arena_->peak() == peak_);
        RC_ASSERT(listener_->calls == freed_);
    }

    void finish() {
        while (!pieces_.empty()) free(0);
        RC_ASSERT(arena_->in_use() == 0U);
        // All has grown together again: what fitted at first fits now.
        allocate(Arena::kLargest, 0);
        RC_ASSERT(pieces_.empty() == (taken_.size() < Arena::kLargest / Arena::kPage));
    }

  private:
    struct Piece {
        ArenaBufferPtr buffer;
        std::size_t first = 0, pages = 0;
        std::byte mark{};
        std::vector<bool> given;
    };

    /// A piece goes wherever a free run is long enough (among fewer runs than PageHeap looks at).
    bool has_room(std::size_t pages) const {
        std::size_t run = 0;
        return std::any_of(taken_.begin(), taken_.end(), [&](bool taken) {
            run = taken ? 0 : run + 1;
            return run == pages;
        });
    }

    void allocate(std::size_t size, unsigned mark) {
        auto buffer = arena_->allocate(size);
        if (size > Arena::kLargest) {
            RC_ASSERT(buffer == nullptr);
            return;
        }
        const std::size_t pages = Arena::rounded(size) / Arena::kPage;
        RC_ASSERT((buffer != nullptr) == has_room(pages));
        if (!buffer) return;
        RC_ASSERT(buffer->capacity() == pages * Arena::kPage);
        RC_ASSERT(buffer->capacity() >= size);
        RC_ASSERT(buffer->bytes().size() == size);
        const auto offset = static_cast<std::size_t>(buffer->writable().data() - base_);
        RC_ASSERT(offset % Arena::kPage == 0U);
        const std::size_t first = offset / Arena::kPage;
        RC_ASSERT(first + pages <= taken_.size());
        for (std::size_t page = first; page < first + pages; ++page) {
            RC_ASSERT(!taken_[page]);
            taken_[page] = true;
        }
        const auto letter = static_cast<std::byte>(mark);
        buffer->writable().front() = buffer->writable().back() = letter;
        in_use_ += pages * Arena::kPage;
        peak_ = std::max(peak_, in_use_);
        pieces_.push_back({std::move(buffer), first, pages, letter, std::vector<bool>(pages, false)});
    }

    void free(unsigned which) {
        if (pieces_.empty()) return;
        const auto at = pieces_.begin() + static_cast<std::ptrdiff_t>(which % pieces_.size());
        RC_ASSERT(at->buffer->writable().front() == at->mark);
        RC_ASSERT(at->buffer->writable().back() == at->mark);
        for (std::size_t page = at->first; page < at->first + at->pages; ++page) taken_[page] = false;
        in_use_ -= at->pages * Arena::kPage;
        at->buffer->quiet = which % 2 == 1;
        freed_ += at->buffer->quiet ? 0 : 1;
        pieces_.erase(at);
    }

    void use(const model::Command& command) {
        if (pieces_.empty()) return;
        Piece& piece = pieces_[command.a % pieces_.size()];
        const std::size_t size = piece.buffer->bytes().size();
        const std::size_t begin = (command.b * 97U) % size;
        const std::size_t end = begin + 1 + (command.c * 131U) % (size - begin);
        std::uint64_t fresh = 0;
        for (std::size_t page = begin / Arena::kPage; page * Arena::kPage < end; ++page) {
            if (piece.given[page]) continue;
            piece.given[page] = true;
            fresh += std::min(end, (page + 1) * Arena::kPage) - std::max(begin, page * Arena::kPage);
        }
        RC_ASSERT(piece.buffer->take_fresh(begin, end) == fresh);
    }

    std::shared_ptr<CountingListener> listener_;
    std::shared_ptr<Arena> arena_;
    const std::byte* base_ = nullptr;
    std::vector<bool> taken_;
    std::vector<Piece> pieces_;
    std::uint64_t in_use_ = 0, peak_ = 0;
    std::size_t freed_ = 0;
};

TEST(ArenaModelTest, GivesWhatFitsAndNothingTwice) {
    model::check(40, [] {
        const auto pages = *rc::gen::resize(100, rc::gen::inRange(1U, 5000U));
        const auto commands = *model::commands(400, {8, 2, 7, 4});
        ArenaModel arena(pages);
        for (const auto& command : commands) arena.run(command);
        arena.finish();
    });
}

}  // namespace arena_model_test
}  // namespace tierfs
