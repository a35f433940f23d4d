// What the supervisor does in a daemon's stead while there is none: it keeps its locks and answers its
// clients.
#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "fs/daemon/supervisor_process.hpp"

namespace tierfs {

/// What a daemon gives up while it serves is free (a device that failed, say, can be unmounted then); what
/// one gives up that ends is the next one's.
void Supervisor::keep_lock(Message message) {
    if (message.descriptor) {
        locks_[message.text] = std::move(message.descriptor);
    } else if (state_ == State::serving && !(reload_ && reload_->stage == Reload::Stage::handing_over)) {
        locks_.erase(message.text);
    }
}

void Supervisor::send_locks_and_go() {
    for (const auto& [folder, lock] : locks_) daemon_channel_.send(Message::Kind::lock, folder, lock.get());
    daemon_channel_.send(Message::Kind::go);
}

bool Supervisor::answers_clients() const {
    return listener_ && state_ == State::restarting && paused_at_ &&
           Clock::now() >= *paused_at_ + kQuietPause;
}

void Supervisor::answer_client() {
    const auto client = accept_control(listener_.get());
    if (!client) return;
    const std::chrono::duration<double> pause = Clock::now() - *paused_at_;
    const bool is_asked_for = reload_ && reload_->stage == Reload::Stage::taken;
    std::string why = is_asked_for ? "its daemon is being replaced (tierfs reload)"
                                   : "its daemon died and another one is being started: try " +
                                         std::to_string(restarts_.recent()) + " of " +
                                         std::to_string(settings_.restart_limit) + " within a minute";
    std::array<char, 64> since{};
    std::snprintf(since.data(), since.size(), ", for %.1f s now; readers wait", pause.count());
    answer(client, control_refusal(why + since.data()));
}

}  // namespace tierfs
