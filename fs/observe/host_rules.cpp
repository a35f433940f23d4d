// What is to be changed at a host: each rule is a function over what was seen there.
#include "config/base/units.hpp"
#include "fs/gds/host_files.hpp"
#include "fs/observe/cache_room.hpp"
#include "fs/observe/figures.hpp"
#include "fs/observe/rules.hpp"

namespace tierfs {
namespace {

using Findings = std::vector<Finding>;

constexpr std::uint64_t kFewDescriptors = 65536;
constexpr std::uint64_t kLittleLocked = 64U << 20U;  // tierfs-stage and iobench register their buffers
constexpr unsigned kNearlyWorn = 90;                 // percent of the endurance

void add(Findings& found, const char* id, std::string what, std::string evidence,
         std::vector<std::string> advice) {
    found.push_back({id, 0, std::move(what), std::move(evidence), std::move(advice)});
}

void check_mount(const Host& host, Findings& found) {
    if (host.read_ahead_kib && *host.read_ahead_kib < 128)
        add(found, "read-ahead", "The kernel's read-ahead of the mount is small.",
            std::to_string(*host.read_ahead_kib) + " KiB; tierfs sets 512 when it mounts",
            {"find out what lowers it (udev rules, tuned), or mount anew"});
}

void check_queue(const Host::Device& device, Findings& found) {
    const bool rotates = device.rotational.value_or(false);
    if (rotates)
        add(found, "rotating-disk", device.path + " lies on a device that says it rotates.",
            "queue/rotational is 1 (virtual disks often say so)", {"use a local NVMe device"});
    if (!device.scheduler.empty() && device.scheduler != "none" && !rotates)
        add(found, "scheduler", "The device of " + device.path + " has an I/O scheduler.",
            "the scheduler is " + device.scheduler, {"choose none for NVMe: it is fast enough without"});
}

void check_file_system(const Host::Device& device, Findings& found) {
    if (!device.mount_options.empty() && !gds::has_option(device.mount_options, "noatime"))
        add(found, "atime", "Reading " + device.path + " writes times of access.",
            device.mountpoint + " is mounted with " + device.mount_options,
            {"mount it with noatime (mount -o remount,noatime " + device.mountpoint +
             ", and in /etc/fstab)"});
    if (device.raid.empty()) return;
    const bool striped = device.raid_level == "raid0";
    add(found, "raid", device.path + " lies on an md array.",
        device.raid + " is " + (device.raid_level.empty() ? "of unknown level" : device.raid_level),
        {"give each device a file system of its own, and the tier all of them (nvme.path=/nvme0:/nvme1)" +
         std::string(
             striped
                 ? ": one that fails then costs what it holds, not the whole cache; but a single stream that "
                   "needs more than one device gives needs the array"
                 : ": what lies in a cache can be fetched again, copies of it cost room and writes")});
}

void check_room(const Facts& facts, const Host::Device& device, Findings& found) {
    CacheRoom room = device.room;
    for (const auto& sample : facts.interval.devices) {
        if (sample.path != device.path) continue;
        room.limit = sample.limit;
        room.used = sample.used;
    }
    if (is_short_of_room(room))
        add(found, "cache-room",
            "The file system of " + device.path + " has less room than the tier may take.",
            "it may take " + format_size(room.limit) + ", has taken " + format_size(room.used) + ", and " +
                format_size(room.available) + " are free",
            {"see what else fills it, lower nvme.limit, or set nvme.keep_free so that the tier gives way"});
    if (device.mountpoint == "/" && room.is_known && room.used + room.available < 2 * room.limit)
        add(found, "cache-on-root", device.path + " lies on the root file system.",
            "what fills that stops the host",
            {"give the tier a device of its own", "or set nvme.keep_free, which is always left to others"});
}

/// One file lies on one device of the tier, and one NVMe device gives what its link carries, less a part.
void check_stripes(const Facts& facts, Findings& found) {
    constexpr double kBound = 0.6;  // of the link: few devices read faster than 0.85 of it
    const Host& host = facts.host;
    const bool streams =
        facts.interval.sequential > facts.interval.random || facts.interval.passthrough_files > 0;
    double all = 0;
    for (const auto& device : host.devices) all += device.read_bytes_per_s;
    for (const auto& device : host.devices) {
        if (!streams || device.controllers.size() != 1 || host.nvme_controllers < 2) continue;
        const double link = device.controllers.front().link_bytes_per_s;
        const double rate = device.read_bytes_per_s;
        if (link <= 0 || rate < kBound * link || rate < 0.9 * all) continue;
        const bool several = host.devices.size() > 1;
        std::vector<std::string> advice;
        if (!several)
            advice.push_back(
                "where several files are read at a time: give the tier more devices "
                "(nvme.path=/nvme0:/nvme1)");
        advice.push_back(
            "where one stream alone needs more: an md RAID0 of several devices with XFS on it, and "
            "nvme.path there");
        add(found, "one-device",
            "What is read comes as fast as one NVMe device, that of " + device.path + ", gives.",
            size_text(rate) + "/s came from it, " +
                (several ? "next to nothing from the tier's other devices; its link carries "
                         : "the only device of the tier; its link carries ") +
                size_text(link) + "/s at most; this host has " + std::to_string(host.nvme_controllers) +
                " NVMe controllers",
            std::move(advice));
    }
}

void check_link(const Host& host, const Host::Device& device, const Host::Controller& controller,
                Findings& found) {
    if (controller.link_degraded)
        add(found, "pcie-link", controller.name + " of " + device.path + " has a slower link than it could.",
            controller.link + "; it could have " + controller.fastest_link,
            {"see that it sits in a slot of as many lanes and of its generation, and look in the kernel's "
             "log "
             "for a link that was trained down"});
    if (host.numa_nodes > 1 && controller.daemon_is_far)
        add(found, "numa", "The daemon runs far from " + controller.name + " of " + device.path + ".",
            controller.name + " is at NUMA node " + std::to_string(controller.numa_node.value_or(0)) +
                ", on whose processors the daemon may not run",
            {"let it run there too (CPUAffinity= and AllowedCPUs= of the service, cpuset of its cgroup, "
             "taskset), or "
             "use a device at its own node"});
}

/// Empty: it is well, or cannot be asked.
std::string complaint_of(const Host::Controller& controller) {
    std::string text;
    const auto say = [&](const std::string& one) { text += (text.empty() ? "" : "; ") + one; };
    if (!controller.state.empty() && controller.state != "live") say("its state is " + controller.state);
    if (!controller.health) return text;
    const NvmeHealth& health = *controller.health;
    if ((health.critical_warning & NvmeHealth::kReadOnly) != 0) say("it takes no more writes");
    if ((health.critical_warning & NvmeHealth::kUnreliable) != 0) say("it calls itself unreliable");
    if ((health.critical_warning & NvmeHealth::kSpareLow) != 0 ||
        health.spare_percent < health.spare_threshold)
        say(std::to_string(health.spare_percent) + " % of its spare blocks are left");
    if (health.worn_percent >= kNearlyWorn)
        say(std::to_string(health.worn_percent) + " % of its endurance are used");
    if (health.media_errors != 0) say(amount(static_cast<double>(health.media_errors)) + " media errors");
    return text;
}

void check_health(const Host::Device& device, const Host::Controller& controller, Findings& found) {
    if (auto complaint = complaint_of(controller); !complaint.empty())
        add(found, "nvme-health", controller.name + " of " + device.path + " is not well.",
            std::move(complaint),
            {"look at nvme smart-log /dev/" + controller.name +
             ", and replace it: tierfs checks what it reads "
             "and fetches damaged data again"});
    if (!controller.health) return;
    const NvmeHealth& health = *controller.health;
    if ((health.critical_warning & NvmeHealth::kTemperature) != 0)
        add(found, "nvme-hot", controller.name + " of " + device.path + " is too hot, and slows down.",
            std::to_string(health.celsius) + " degrees Celsius; " + std::to_string(health.throttled_minutes) +
                " minutes too hot so far",
            {"see to its cooling"});
}

void check_limits(const Host& host, Findings& found) {
    if (host.open_files && *host.open_files < kFewDescriptors)
        add(found, "descriptors", "The daemon may open few files.",
            std::to_string(*host.open_files) + " descriptors",
            {"raise LimitNOFILE= of the service, or ulimit -n before mounting, to 1048576"});
    if (host.locked_bytes && *host.locked_bytes < kLittleLocked)
        add(found, "memlock", "You may lock little memory: tierfs-stage and iobench cannot register buffers.",
            format_size(*host.locked_bytes) + " (ulimit -l); the mount itself locks none",
            {"raise memlock in /etc/security/limits.conf, or LimitMEMLOCK= of what starts them"});
    if (host.io_uring_disabled)
        add(found, "io-uring", "The kernel refuses io_uring: tierfs-stage writes one piece after the other.",
            "kernel.io_uring_disabled is " + std::to_string(*host.io_uring_disabled) +
                "; the mount itself does without",
            {*host.io_uring_disabled == 1
                 ? "run it as root, or as a member of the group kernel.io_uring_group"
                 : "set it to 0 or 1 (sysctl) where those who run programs there are trusted"});
}

void check_kernel(const Host& host, Findings& found) {
    if (host.kernel_major != 0 &&
        (host.kernel_major < 6 || (host.kernel_major == 6 && host.kernel_minor < 9)))
        add(found, "kernel", "The kernel is older than Linux 6.9.",
            "Linux " + std::to_string(host.kernel_major) + "." + std::to_string(host.kernel_minor),
            {"with 6.9 the kernel reads large cached files by itself, and a dead daemon is replaced"});
}

}  // namespace

std::vector<Finding> check_host(const Facts& facts) {
    const Host& host = facts.host;
    Findings found;
    check_mount(host, found);
    for (const auto& device : host.devices) {
        check_queue(device, found);
        check_file_system(device, found);
        check_room(facts, device, found);
        for (const auto& controller : device.controllers) {
            check_health(device, controller, found);
            check_link(host, device, controller, found);
        }
    }
    check_stripes(facts, found);
    check_limits(host, found);
    check_kernel(host, found);
    for (const auto& advice : facts.interval.source_advice)
        add(found, "source-mount", "The mount of the source directory could be faster.",
            "it is of type " + facts.interval.source_type, {"remount it with " + advice});
    return found;
}

}  // namespace tierfs
