#include "fs/control/jobs.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fs/control/control.hpp"

namespace tierfs {

namespace {

using Json = nlohmann::json;

TreeJob::Action warming(Store& store) {
    return [&store](const std::shared_ptr<const ObjectRef>& object, TreeJob::Answer answer,
                    const std::function<bool()>& stopped) {
        store.warm(
            object,
            [answer = std::move(answer)](const Result<Store::Warmed>& warmed) {
                if (!warmed) return answer(fail(warmed.error()));
                answer(TreeJob::Done{warmed->brought, warmed->unchanged});
            },
            stopped);
    };
}

TreeJob::Action evicting(Store& store) {
    return [&store](const std::shared_ptr<const ObjectRef>& object, const TreeJob::Answer& answer,
                    const std::function<bool()>& /*stopped*/) {
        const auto evicted = store.evict(*object);
        if (!evicted) return answer(fail(evicted.error()));
        answer(TreeJob::Done{*evicted, *evicted == 0});
    };
}

/// All paths are counted, checked against the limit and written down before anything is brought.
TreeJob::Steps pin_steps(Store& store, Pins& pins) {
    TreeJob::Steps steps;
    steps.space = pinned_space;
    steps.admit = [&](const std::string& path, std::uint64_t files, std::uint64_t bytes) -> Result<void> {
        const auto added = pins.add(path, {files, bytes}, store.pin_limit());
        if (!added) return fail(added.error());
        return {};
    };
    steps.settle = [&pins] { return pins.commit(); };
    return steps;
}

TreeJob::Steps unpin_steps(Pins& pins, PinKeeper& keeper) {
    TreeJob::Steps steps;
    steps.enter = [&pins](const std::string& path) -> Result<std::optional<TreeJob::Done>> {
        const auto removed = pins.remove(path);
        if (!removed) return fail(removed.error());
        return TreeJob::Done{removed->bytes, false};
    };
    steps.settle = [&pins, &keeper]() -> Result<void> {
        auto written = pins.commit();
        if (written) keeper.look_again();
        return written;
    };
    return steps;
}

Json progress_json(const TreeJob::Progress& progress) {
    Json failures = Json::array();
    for (const auto& failure : progress.failures) {
        failures.push_back(
            Json{{"path", path_to_wire(failure.path)}, {"error", path_to_wire(failure.message)}});
    }
    return Json{{"running", progress.running},
                {"walking", progress.walking},
                {"settled", progress.settled},
                {"files", progress.files},
                {"bytes", progress.bytes},
                {"found_files", progress.found_files},
                {"found_bytes", progress.found_bytes},
                {"brought_bytes", progress.brought},
                {"unchanged_files", progress.unchanged},
                {"failed", progress.failed},
                {"failures", std::move(failures)}};
}

}  // namespace

Result<Json> Jobs::command(const std::string& name, const Json& request) {
    if (name == "job-start") return start(request);
    if (name == "job-cancel") return cancel(request);
    if (name != "job-paths" && name != "job-seal" && name != "job-status" && name != "job-stop")
        return fail(ENOSYS, "no command about jobs");
    const auto job = find(request);
    if (!job) return fail(job.error());
    if (name == "job-paths") return add_paths(**job, request);
    if (name == "job-seal") (*job)->work->seal();
    if (name == "job-stop") (*job)->work->stop();
    return progress_json((*job)->work->progress());
}

Result<Json> Jobs::start(const Json& request) {
    const auto kind = request.find("kind");
    const bool named = kind != request.end() && kind->is_string();
    if (jobs_.size() == kMostJobs) {
        const auto ended = std::find_if(jobs_.begin(), jobs_.end(),
                                        [](const Job& job) { return !job.work->progress().running; });
        if (ended == jobs_.end())
            return fail(EBUSY, std::to_string(kMostJobs) + " jobs are running already: try again later");
        jobs_.erase(ended);
    }
    auto name = named ? kind->get<std::string>() : std::string();
    auto work = make_job(name);
    if (!work) return fail(EINVAL, "a job is of the kind warm, evict, pin or unpin");
    jobs_.push_back({++last_, std::move(name), std::move(work)});
    return Json{{"job", last_}};
}

Json Jobs::cancel(const Json& request) {
    const auto kind = request.find("kind");
    std::uint64_t stopped = 0;
    for (auto& job : jobs_) {
        if (kind == request.end() || *kind != job.kind || !job.work->progress().running) continue;
        job.work->stop();
        ++stopped;
    }
    return Json{{"stopped", stopped}};
}

std::unique_ptr<TreeJob> Jobs::make_job(const std::string& kind) {
    if (kind == "warm") {
        TreeJob::Steps steps;
        steps.most_bytes = store_.most_held();
        return std::make_unique<TreeJob>(origin_, warming(store_), std::move(steps));
    }
    if (kind == "evict") return std::make_unique<TreeJob>(origin_, evicting(store_));
    if (kind == "pin") return std::make_unique<TreeJob>(origin_, pinning(store_), pin_steps(store_, pins_));
    if (kind == "unpin") {  // no file is handed out: the keeper lets go of them
        return std::make_unique<TreeJob>(origin_, TreeJob::Action(), unpin_steps(pins_, keeper_));
    }
    return nullptr;
}

Result<Jobs::Job*> Jobs::find(const Json& request) {
    const auto number = request.find("job");
    if (number == request.end() || !number->is_number_unsigned())
        return fail(EINVAL, "the request has no \"job\"");
    const auto found = std::find_if(jobs_.begin(), jobs_.end(), [&](const Job& job) {
        return job.number == number->get<std::uint64_t>();
    });
    if (found == jobs_.end()) return fail(ENOENT, "there is no such job any more");
    return &*found;
}

Result<Json> Jobs::add_paths(Job& job, const Json& request) {
    const auto paths = request.find("paths");
    if (paths == request.end() || !paths->is_array()) return fail(EINVAL, "the request has no \"paths\"");
    std::uint64_t taken = 0;
    for (const Json& each : *paths) {
        if (!each.is_string()) return fail(EINVAL, "a path is a string");
        auto path = path_from_wire(each.get_ref<const std::string&>());
        if (!path || path->starts_with('/') || path->find('\0') != std::string::npos)
            return fail(EINVAL, "a path is relative to the mount, a character a byte");
        if (!job.work->add(std::move(*path))) break;
        ++taken;
    }
    return Json{{"taken", taken}};
}

}  // namespace tierfs
