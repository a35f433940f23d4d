#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <thread>

#include "fs/cli/say.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/find_mount.hpp"
#include "fs/commands/parse.hpp"
#include "fs/commands/sampler.hpp"
#include "fs/observe/rules.hpp"

namespace tierfs {

namespace {

constexpr auto kDoctorPatience = std::chrono::seconds(10);

/// Two looks at the mount. Errors: it does not answer.
Result<Facts> measure(const std::string& mountpoint, double seconds) {
    const auto first = take_snapshot(mountpoint, kDoctorPatience);
    if (!first) return fail(first.error());
    const auto read_before = cache_device_reads(first->snapshot);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const auto second = take_snapshot(mountpoint, kDoctorPatience);
    if (!second) return fail(second.error());
    const auto read_after = cache_device_reads(second->snapshot);
    const double passed = std::chrono::duration<double>(second->at - first->at).count();
    Facts facts;
    facts.interval = difference(first->snapshot, second->snapshot);
    facts.seconds =
        first->snapshot.pid == second->snapshot.pid ? passed : std::max(second->snapshot.uptime_s, 0.01);
    if (const auto mount = find_tierfs_mount(mountpoint))
        facts.host = look_at_host(mount->device(), second->snapshot);
    for (auto& device : facts.host.devices) {
        const auto from = read_before.find(device.path), to = read_after.find(device.path);
        if (from != read_before.end() && to != read_after.end() && to->second > from->second)
            device.read_bytes_per_s = static_cast<double>(to->second - from->second) / passed;
    }
    return facts;
}

}  // namespace

int doctor_command(const std::vector<std::string>& arguments) {
    std::string mountpoint;
    double seconds = 5;
    bool json = false;
    CLI::App app("Measures a mount for some seconds, and says where its readers wait and what to change",
                 "tierfs doctor");
    app.add_option("MOUNTPOINT", mountpoint, "a tierfs mount")->required();
    app.add_option("--seconds", seconds, "how long")->check(CLI::Range(0.1, 3600.0));
    app.add_flag("--json", json, "print JSON");
    if (const auto ended = parse_arguments(app, arguments)) return *ended;

    const auto facts = measure(mountpoint, seconds);
    if (!facts) return command_failed(facts.error().message);
    if (json) {
        const auto report = doctor_json(*facts);
        say_json(stdout, report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
        say(stdout, doctor_text(*facts));
    }
    return 0;
}

}  // namespace tierfs
