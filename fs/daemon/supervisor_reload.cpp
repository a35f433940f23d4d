// A mount changes from one program to another: from `tierfs reload` to its answer.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/base/log.hpp"
#include "config/base/sync_point.hpp"
#include "fs/daemon/supervisor_process.hpp"

namespace tierfs {

namespace {
constexpr auto kStartPatience = std::chrono::seconds(30);  // beyond what the source may take
constexpr auto kLeavePatience = std::chrono::seconds(15);  // for the daemon to answer, write and end
}  // namespace

void Supervisor::answer(const FileDescriptor& client, const std::string& line) {
    // A client that has gone, or does not read, does not matter.
    if (client) ::send(client.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

TakeoverRequest Supervisor::takeover_request() const {
    TakeoverRequest request;
    request.sources = request_.sources;
    request.log_file = settings_.log_file;
    request.scratch = scratch_.path();
    request.supervisor_pid = ::getpid();
    request.lasting = lasting_settings(settings_);
    return request;
}

void Supervisor::reload_asked(FileDescriptor client) {
    if (reload_) return answer(client, control_refusal("another reload of this mount is under way"));
    if (state_ != State::serving) return answer(client, control_refusal("the mount is about to end"));
    auto image = ProgramImage::read(request_.program, takeover_request());
    if (!image) return answer(client, control_refusal(image.error().message));
    auto process = image->start(*record_, kReload);
    if (!process) return answer(client, control_refusal(process.error().message));
    log::info("reload: " + request_.program + " is started as pid " + std::to_string(process->pid));
    const auto patience =
        std::min<std::chrono::milliseconds>(settings_.origin_deadline, std::chrono::hours(1)) +
        kStartPatience;
    reload_ =
        Reload{Reload::Stage::starting, std::move(client), std::move(*image), std::move(*process), {}, {},
               Clock::now() + patience};
}

void Supervisor::standby_speaks() {
    auto message = reload_->process.channel.receive();
    if (!message) return reload_->process.channel.close();  // SIGCHLD tells
    if (message->kind == Message::Kind::failed) {
        reload_->why = std::move(message->text);
    } else if (message->kind == Message::Kind::ready && reload_->stage == Reload::Stage::starting) {
        reload_->version = std::move(message->text);
        hand_over();
    }
}

/// Before it became the daemon.
void Supervisor::standby_died(int status) {
    reload_->process.pid = -1;
    while (reload_->process.channel.descriptor() >= 0) {  // it may have said why
        auto message = reload_->process.channel.receive();
        if (!message) break;
        if (message->kind == Message::Kind::failed) reload_->why = std::move(message->text);
    }
    if (reload_->why.empty()) {
        reload_->why = WIFSIGNALED(status)
                           ? "the new program was killed by signal " + std::to_string(WTERMSIG(status))
                           : "the new program ended with status " + std::to_string(WEXITSTATUS(status));
        reload_->why += " before it was ready";
        if (!settings_.log_file.empty()) reload_->why += ": see " + settings_.log_file;
    }
    // What was told to end has to end: its own program follows it then.
    if (reload_->stage == Reload::Stage::starting) refuse_reload(reload_->why);
}

/// The daemon that serves goes on, or the mount ends.
void Supervisor::refuse_reload(const std::string& why) {
    log::error("reload: " + why);
    answer(reload_->client, control_refusal(why));
    if (reload_->process.pid > 0) ::kill(reload_->process.pid, SIGKILL);
    reload_.reset();
}

void Supervisor::hand_over() {
    reload_->stage = Reload::Stage::handing_over;
    paused_at_ = Clock::now();
    log::info("reload: tierfs " + reload_->version + " is ready; the daemon ends");
    TIERFS_SYNC_POINT("supervisor.hand_over");
    daemon_channel_.send(Message::Kind::retire);  // one that has just died is heard of by SIGCHLD
    kill_at_ = Clock::now() + kLeavePatience;
}

/// The daemon has ended. Whether the one that waits is the daemon from now on.
bool Supervisor::take_turns() {
    if (!reload_ || state_ != State::serving) return false;
    if (reload_->stage == Reload::Stage::starting) {
        refuse_reload("the daemon has died meanwhile: try again");
        return false;
    }
    if (reload_->stage != Reload::Stage::handing_over) return false;
    if (!is_connected(mount_)) return false;  // unmounted meanwhile
    state_ = State::restarting;
    if (reload_->process.pid < 0) {
        reload_failed(reload_->why);
        return will_restart("the new program has died");
    }
    reload_->stage = Reload::Stage::taken;
    daemon_started(std::exchange(reload_->process, {}));
    send_locks_and_go();
    kill_at_ = restart_deadline();
    return true;
}

/// The program that served before serves again, if it can.
void Supervisor::reload_failed(const std::string& why) {
    reload_->why = why;
    reload_->stage = Reload::Stage::failed;
}

/// A daemon serves.
void Supervisor::reloaded() {
    if (reload_->stage == Reload::Stage::failed) {
        return refuse_reload("the new program could not serve, and the one before it does so again: " +
                             reload_->why);
    }
    if (reload_->stage != Reload::Stage::taken) return;
    record_->count_reload();
    const std::chrono::duration<double> pause = Clock::now() - paused_at_.value_or(Clock::now());
    answer(reload_->client, control_answer({{"pid", daemon_},
                                            {"version", reload_->version},
                                            {"program", request_.program},
                                            {"pause_s", pause.count()}}));
    image_ = std::move(reload_->image);
    reload_.reset();
}

}  // namespace tierfs
