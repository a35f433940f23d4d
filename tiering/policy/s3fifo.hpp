// S3-FIFO: which unit of a cache goes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <unordered_map>

namespace tierfs {

/// Three queues (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023,
/// https://dl.acm.org/doi/10.1145/3600006.3613147). What is new enters `small` (a tenth of the bytes); what
/// was touched twice there moves to `main`, the rest leaves and is remembered by `ghost`; what comes back
/// while remembered enters `main`. In `main` each touch (up to 3) buys one more round.
///
/// Sizes are bytes and may change. Holds keys only; the owner keeps what they stand for and takes out what
/// `evict` names. Not thread-safe.
template <typename Key, typename Hash = std::hash<Key>>
class S3Fifo {
  public:
    static constexpr std::uint8_t kFrequencyCap = 3;

    explicit S3Fifo(std::uint64_t capacity)
        : small_target_(capacity / 10), ghost_target_(capacity - capacity / 10) {}

    /// False, and nothing changes, when the key is here already. `to_main`: it has earned its place
    /// elsewhere.
    bool insert(const Key& key, std::uint64_t bytes, bool to_main = false) {
        if (nodes_.count(key) != 0) return false;
        const bool remembered = forget_ghost(key) || to_main;
        List& queue = remembered ? main_ : small_;
        queue.push_back(Node{key, bytes, 0, remembered});
        (remembered ? main_bytes_ : small_bytes_) += bytes;
        nodes_.emplace(key, std::prev(queue.end()));
        return true;
    }

    /// Counts a use.
    void touch(const Key& key) {
        const auto found = nodes_.find(key);
        if (found == nodes_.end()) return;
        auto& frequency = found->second->frequency;
        if (frequency < kFrequencyCap) ++frequency;
    }

    void resize(const Key& key, std::uint64_t bytes) {
        const auto found = nodes_.find(key);
        if (found == nodes_.end()) return;
        Node& node = *found->second;
        std::uint64_t& total = node.in_main ? main_bytes_ : small_bytes_;
        total = total - node.bytes + bytes;
        node.bytes = bytes;
    }

    /// Takes a key out without remembering it.
    bool erase(const Key& key) {
        const auto found = nodes_.find(key);
        if (found == nodes_.end()) return false;
        remove(found->second);
        return true;
    }

    /// Takes out and names what should go next; nothing when empty or when `may` refuses all. A refused key
    /// keeps its queue and its touches but goes to the end of it.
    template <typename May>
    std::optional<Key> evict(const May& may) {
        std::size_t refused_small = 0;
        std::size_t refused_main = 0;
        while (!nodes_.empty()) {
            const bool small_left = refused_small < small_.size();
            const bool main_left = refused_main < main_.size();
            if (!small_left && !main_left) return std::nullopt;
            if (small_left && (small_bytes_ > small_target_ || !main_left)) {
                const auto oldest = small_.begin();
                if (earned_main(*oldest)) {
                    promote(oldest);
                    refused_main = 0;  // what joined main stands behind those refused there
                } else if (!may(oldest->key)) {
                    small_.splice(small_.end(), small_, oldest);
                    ++refused_small;
                } else {
                    return leave(oldest, true);
                }
                continue;
            }
            const auto oldest = main_.begin();
            if (!may(oldest->key)) {
                main_.splice(main_.end(), main_, oldest);
                ++refused_main;
            } else if (oldest->frequency > 0) {
                --oldest->frequency;
                main_.splice(main_.end(), main_, oldest);
                refused_main = 0;
            } else {
                return leave(oldest, false);
            }
        }
        return std::nullopt;
    }

    /// The same of `small` alone, so that nothing that earned its place goes: nothing when there is none among a few.
    template <typename May>
    std::optional<Key> evict_new(const May& may) {
        constexpr unsigned kMostLooks = 64;
        std::size_t refused = 0;
        for (unsigned looks = 0; looks < kMostLooks && refused < small_.size(); ++looks) {
            const auto oldest = small_.begin();
            if (earned_main(*oldest)) {
                promote(oldest);
            } else if (may(oldest->key)) {
                return leave(oldest, true);
            } else {
                small_.splice(small_.end(), small_, oldest);
                ++refused;
            }
        }
        return std::nullopt;
    }

    std::optional<Key> evict() {
        return evict([](const Key&) { return true; });
    }

    [[nodiscard]] bool contains(const Key& key) const { return nodes_.count(key) != 0; }
    [[nodiscard]] bool remembers(const Key& key) const { return ghosts_.count(key) != 0; }
    [[nodiscard]] std::size_t size() const { return nodes_.size(); }
    [[nodiscard]] std::uint64_t bytes() const { return small_bytes_ + main_bytes_; }
    [[nodiscard]] std::uint64_t small_bytes() const { return small_bytes_; }

  private:
    struct Node {
        Key key;
        std::uint64_t bytes;
        std::uint8_t frequency;
        bool in_main;
    };
    struct Ghost {
        Key key;
        std::uint64_t bytes;
    };
    using List = std::list<Node>;

    static bool earned_main(const Node& node) { return node.frequency > 1; }

    void promote(typename List::iterator node) {
        small_bytes_ -= node->bytes;
        main_bytes_ += node->bytes;
        node->in_main = true;
        node->frequency = 0;
        main_.splice(main_.end(), small_, node);
    }

    Key leave(typename List::iterator node, bool remember) {
        Key key = node->key;
        const std::uint64_t bytes = node->bytes;
        remove(node);
        if (remember) add_ghost(key, bytes);
        return key;
    }

    void remove(typename List::iterator node) {
        nodes_.erase(node->key);
        if (node->in_main) {
            main_bytes_ -= node->bytes;
            main_.erase(node);
        } else {
            small_bytes_ -= node->bytes;
            small_.erase(node);
        }
    }

    void add_ghost(const Key& key, std::uint64_t bytes) {
        ghost_queue_.push_back(Ghost{key, bytes});
        ghosts_[key] = std::prev(ghost_queue_.end());
        ghost_bytes_ += bytes;
        while (ghost_bytes_ > ghost_target_ && !ghost_queue_.empty()) forget_ghost(ghost_queue_.front().key);
    }

    bool forget_ghost(Key key) {  // by value: the key may live in the node that goes
        const auto found = ghosts_.find(key);
        if (found == ghosts_.end()) return false;
        ghost_bytes_ -= found->second->bytes;
        ghost_queue_.erase(found->second);
        ghosts_.erase(found);
        return true;
    }

    std::uint64_t small_target_;
    std::uint64_t ghost_target_;
    List small_, main_;
    std::uint64_t small_bytes_ = 0, main_bytes_ = 0, ghost_bytes_ = 0;
    std::unordered_map<Key, typename List::iterator, Hash> nodes_;
    std::list<Ghost> ghost_queue_;
    std::unordered_map<Key, typename std::list<Ghost>::iterator, Hash> ghosts_;
};

}  // namespace tierfs
