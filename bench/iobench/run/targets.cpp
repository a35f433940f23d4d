#include "bench/iobench/run/targets.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "bench/iobench/run/place.hpp"

namespace tierfs::iobench {

namespace {

template <typename T>
std::optional<T> number(const std::string& text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::string default_name(const ResultTarget& target) {
    const std::string& type = target.fs_type;
    if (type.empty()) return "target";
    return type.starts_with("fuse.") && type.size() > 5 ? type.substr(5) : type;
}

Result<std::vector<Place>> describe_all(const std::vector<std::string>& paths) {
    std::vector<Place> places;
    for (const auto& word : paths) {
        const auto [name, path] = parse_named(word);
        struct stat attributes {};
        if (::stat(path.c_str(), &attributes) != 0) return fail(system_error(errno, path));
        if (!S_ISDIR(attributes.st_mode)) return fail(ENOTDIR, path + ": is not a directory");
        places.push_back(describe(name, path));
        auto& target = places.back().target;
        if (name.empty()) target.name = default_name(target);
        const auto same = std::find_if(places.begin(), places.end(),
                                       [&](const Place& place) { return place.target.name == target.name; });
        if (same + 1 != places.end())
            return fail(EINVAL, same->target.path + " and " + path + " are both called " + target.name +
                                    ": give them names, NAME=DIR");
    }
    return places;
}

Result<std::size_t> index_of(const std::vector<Place>& places, const std::string& name) {
    for (std::size_t i = 0; i < places.size(); ++i)
        if (places[i].target.name == name) return i;
    return fail(EINVAL, name + ": no target has that name");
}

Result<std::vector<std::optional<Daemon>>> daemons_of(const std::vector<Place>& places,
                                                      const std::vector<std::string>& words) {
    std::vector<std::vector<pid_t>> pids(places.size());
    for (const auto& word : words) {
        const auto [name, value] = parse_named(word);
        const auto which = name.empty() ? Result<std::size_t>(0) : index_of(places, name);
        if (!which) return fail(which.error().within("--daemon-pid"));
        const auto pid = number<pid_t>(value);
        if (!pid || *pid <= 0) return fail(EINVAL, "--daemon-pid " + word + ": is no process");
        pids[*which].push_back(*pid);
    }
    std::vector<std::optional<Daemon>> daemons(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
        if (pids[i].empty() && places[i].target.fs_type == "fuse.tierfs")
            if (const auto pid = tierfs_daemon(places[i].device_number)) pids[i].push_back(*pid);
        if (pids[i].empty()) continue;
        auto found = Daemon::find(pids[i]);
        if (!found) return fail(found.error().within("--daemon-pid"));
        daemons[i] = std::move(*found);
    }
    return daemons;
}

/// Measures each device once.
class Peaks {
  public:
    explicit Peaks(const std::function<Result<double>(const std::string&)>& measure) : measure_(measure) {}

    Result<double> of(const std::string& path) {
        const auto found = known_.find(path);
        if (found != known_.end()) return found->second;
        auto peak = measure_(path);
        if (peak) known_[path] = *peak;
        return peak;
    }

    /// `word`: MB/s, or what to measure.
    Result<void> tell(ResultTarget& target, const std::string& word) {
        if (!target.device) target.device = ResultDevice{};
        if (word.find('/') != std::string::npos) {
            const auto peak = of(word);
            if (!peak) return fail(peak.error());
            if (target.device->name.empty()) target.device->name = word;
            target.device->peak_mb_per_s = *peak;
            return {};
        }
        const auto told = number<double>(word);
        if (!told || !std::isfinite(*told) || *told <= 0)
            return fail(EINVAL, word + ": is neither a number of MB/s nor the path of a device");
        target.device->peak_mb_per_s = told;
        return {};
    }

  private:
    const std::function<Result<double>(const std::string&)>& measure_;
    std::map<std::string, double> known_;
};

Result<void> add_peaks(std::vector<Place>& places, const TargetRequest& request, Peaks& peaks) {
    for (const auto& word : request.peaks) {
        const auto [name, value] = parse_named(word);
        if (!name.empty())
            if (const auto which = index_of(places, name); !which)
                return fail(which.error().within("--peak"));
        for (auto& place : places) {
            if (!name.empty() && place.target.name != name) continue;
            if (auto told = peaks.tell(place.target, value); !told)
                return fail(told.error().within("--peak"));
        }
    }
    if (!request.measure_peak) return {};
    for (auto& place : places) {
        auto& device = place.target.device;
        if (device && device->peak_mb_per_s) continue;
        if (!device)
            return fail(ENODEV, "--measure-peak: " + place.target.path + " is on " + place.target.fs_type +
                                    ", which has no block device; name one by --peak " + place.target.name +
                                    "=DEVICE");
        const auto peak = peaks.of("/dev/" + device->name);
        if (!peak) return fail(peak.error().within("--measure-peak"));
        device->peak_mb_per_s = *peak;
    }
    return {};
}

}  // namespace

Named parse_named(const std::string& word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0 || word.find('/') < equals) return {"", word};
    return {word.substr(0, equals), word.substr(equals + 1)};
}

Result<std::vector<Target>> make_targets(const TargetRequest& request, const SuiteKind& kind,
                                         const RunOptions& options,
                                         const std::function<Result<double>(const std::string&)>& peak) {
    auto places = describe_all(request.paths);
    if (!places) return fail(places.error());
    auto daemons = daemons_of(*places, request.daemons);
    if (!daemons) return fail(daemons.error());
    Peaks peaks(peak);
    if (auto added = add_peaks(*places, request, peaks); !added) return fail(added.error());
    std::vector<Target> targets;
    for (std::size_t i = 0; i < places->size(); ++i) {
        RunOptions own = options;
        own.path = (*places)[i].target.path;
        auto suite = kind.make(own);
        if (!suite) return fail(suite.error());
        targets.push_back({.description = (*places)[i].target,
                           .suite = std::move(*suite),
                           .daemon = std::move((*daemons)[i])});
    }
    return targets;
}

}  // namespace tierfs::iobench
