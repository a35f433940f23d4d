#include "bench/iobench/run/result_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cmath>
#include <set>
#include <span>
#include <tuple>

#include "bench/iobench/data/files.hpp"

namespace tierfs::iobench {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "iobench";
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kLargest = 256ULL << 20;
constexpr int kDeepest = 64;
constexpr std::size_t kMostValues = 10000;  // of a figure: intervals take thousands of resamples of them
constexpr std::array<const char*, 3> kBetter = {"higher", "lower", "neither"};  // in the order of Better

template <typename T>
Json or_null(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json json_of(const ResultTarget& target) {
    Json json = {{"name", target.name},
                 {"path", target.path},
                 {"fs_type", target.fs_type},
                 {"fs_source", target.fs_source},
                 {"mount_point", target.mount_point},
                 {"mount_options", target.mount_options},
                 {"device", nullptr},
                 {"daemon", nullptr}};
    if (const auto& device = target.device)
        json["device"] = {{"name", device->name},
                          {"model", device->model.empty() ? Json(nullptr) : Json(device->model)},
                          {"peak_mb_per_s", or_null(device->peak_mb_per_s)}};
    if (const auto& daemon = target.daemon)
        json["daemon"] = {{"pid", daemon->pid},
                          {"command", daemon->command},
                          {"peak_rss_bytes", daemon->peak_rss_bytes},
                          {"cpu_s", daemon->cpu_s},
                          {"cpu_s_per_gib", or_null(daemon->cpu_s_per_gib)}};
    return json;
}

Json json_of(const ResultFigure& figure) {
    const Summary& summary = figure.summary;
    return {{"target", figure.target},
            {"case", figure.test},
            {"metric", figure.metric},
            {"unit", figure.unit},
            {"better", kBetter.at(static_cast<std::size_t>(figure.better))},
            {"values", figure.values},
            {"median", summary.median},
            {"p95", summary.p95},
            {"min", summary.min},
            {"max", summary.max},
            {"ci95", summary.ci95},
            {"outliers", summary.outliers},
            {"share_of_peak", or_null(figure.share_of_peak)}};
}

/// One value of the file and where it stands.
struct JsonPlace {
    const Json& json;
    std::string where;  ///< "figures[2].values"
};

/// Takes members out of JSON. The first thing that is wrong is kept; from then on everything reads as empty,
/// so that the callers need not look after each member.
class Reader {
  public:
    explicit Reader(std::string file) : file_(std::move(file)) {}

    [[nodiscard]] bool failed() const { return error_.has_value(); }
    [[nodiscard]] const Error& error() const { return *error_; }

    void complain(const std::string& where, const std::string& what) {
        if (!error_) error_ = Error{EINVAL, file_ + ": " + where + ": " + what};
    }

    /// The member, null when it is missing, which is a complaint then.
    JsonPlace member(const JsonPlace& object, const std::string& name) {
        const std::string where = object.where.empty() ? name : object.where + "." + name;
        if (!object.json.is_object()) {
            complain(object.where.empty() ? "the file" : object.where, "is not an object");
            return {kNull, where};
        }
        const auto found = object.json.find(name);
        if (found != object.json.end()) return {*found, where};
        complain(where, "is missing");
        return {kNull, where};
    }

    /// The elements of a list.
    std::vector<JsonPlace> list(const JsonPlace& place) {
        std::vector<JsonPlace> places;
        if (!place.json.is_array()) complain(place.where, "is not a list");
        if (failed()) return places;
        for (std::size_t i = 0; i < place.json.size(); ++i)
            places.push_back({place.json[i], place.where + "[" + std::to_string(i) + "]"});
        return places;
    }

    std::string text(const JsonPlace& place) {
        if (place.json.is_string()) return place.json.get<std::string>();
        complain(place.where, "is not a string");
        return {};
    }

    double number(const JsonPlace& place) {
        const double value = place.json.is_number() ? place.json.get<double>() : NAN;
        if (std::isfinite(value)) return value;
        complain(place.where, "is not a finite number");
        return 0;
    }

    std::uint64_t count(const JsonPlace& place) {
        // A literal in a program is a signed number for the library, one that was parsed an unsigned one.
        if (place.json.is_number_unsigned() ||
            (place.json.is_number_integer() && place.json.get<std::int64_t>() >= 0))
            return place.json.get<std::uint64_t>();
        complain(place.where, "is not a whole number of at least 0");
        return 0;
    }

    bool truth(const JsonPlace& place) {
        if (place.json.is_boolean()) return place.json.get<bool>();
        complain(place.where, "is neither true nor false");
        return false;
    }

    Json object(const JsonPlace& place) {
        if (place.json.is_object()) return place.json;
        complain(place.where, "is not an object");
        return Json::object();
    }

    std::optional<double> number_or_null(const JsonPlace& place) {
        return place.json.is_null() ? std::nullopt : std::optional(number(place));
    }

    std::optional<std::string> text_or_null(const JsonPlace& place) {
        return place.json.is_null() ? std::nullopt : std::optional(text(place));
    }

    std::vector<std::string> texts(const JsonPlace& place) {
        std::vector<std::string> all;
        for (const JsonPlace& element : list(place)) all.push_back(text(element));
        return all;
    }

  private:
    static inline const Json kNull;
    std::string file_;
    std::optional<Error> error_;
};

ResultTarget read_target(Reader& reader, const JsonPlace& at) {
    ResultTarget target;
    target.name = reader.text(reader.member(at, "name"));
    target.path = reader.text(reader.member(at, "path"));
    target.fs_type = reader.text(reader.member(at, "fs_type"));
    target.fs_source = reader.text(reader.member(at, "fs_source"));
    target.mount_point = reader.text(reader.member(at, "mount_point"));
    target.mount_options = reader.text(reader.member(at, "mount_options"));
    if (const JsonPlace device = reader.member(at, "device"); !device.json.is_null())
        target.device = {.name = reader.text(reader.member(device, "name")),
                         .model = reader.text_or_null(reader.member(device, "model")).value_or(""),
                         .peak_mb_per_s = reader.number_or_null(reader.member(device, "peak_mb_per_s"))};
    if (const JsonPlace daemon = reader.member(at, "daemon"); !daemon.json.is_null())
        target.daemon = {.pid = static_cast<std::int64_t>(reader.count(reader.member(daemon, "pid"))),
                         .command = reader.text(reader.member(daemon, "command")),
                         .peak_rss_bytes = reader.count(reader.member(daemon, "peak_rss_bytes")),
                         .cpu_s = reader.number(reader.member(daemon, "cpu_s")),
                         .cpu_s_per_gib = reader.number_or_null(reader.member(daemon, "cpu_s_per_gib"))};
    return target;
}

Better read_better(Reader& reader, const JsonPlace& at) {
    const std::string word = reader.text(at);
    for (std::size_t i = 0; i < kBetter.size(); ++i)
        if (word == kBetter[i]) return static_cast<Better>(i);
    reader.complain(at.where, "is none of higher, lower, neither");
    return Better::neither;
}

Summary read_summary(Reader& reader, const JsonPlace& at, const std::vector<double>& values) {
    if (!at.json.contains("median")) return summarize(values);
    Summary summary;
    summary.median = reader.number(reader.member(at, "median"));
    summary.p95 = reader.number(reader.member(at, "p95"));
    summary.min = reader.number(reader.member(at, "min"));
    summary.max = reader.number(reader.member(at, "max"));
    const auto ends = reader.list(reader.member(at, "ci95"));
    if (ends.size() != 2) reader.complain(at.where + ".ci95", "is not a list of two numbers");
    if (!reader.failed()) summary.ci95 = {reader.number(ends[0]), reader.number(ends[1])};
    for (const JsonPlace& element : reader.list(reader.member(at, "outliers"))) {
        summary.outliers.push_back(reader.count(element));
        if (summary.outliers.back() >= values.size()) reader.complain(element.where, "is no index of values");
    }
    return summary;
}

ResultFigure read_figure(Reader& reader, const JsonPlace& at) {
    ResultFigure figure;
    figure.target = reader.text(reader.member(at, "target"));
    figure.test = reader.text(reader.member(at, "case"));
    figure.metric = reader.text(reader.member(at, "metric"));
    figure.unit = reader.text(reader.member(at, "unit"));
    figure.better = read_better(reader, reader.member(at, "better"));
    const JsonPlace values = reader.member(at, "values");
    for (const JsonPlace& element : reader.list(values)) figure.values.push_back(reader.number(element));
    if (figure.values.empty()) reader.complain(values.where, "is empty");
    if (figure.values.size() > kMostValues) reader.complain(values.where, "has over 10000 values");
    if (reader.failed()) return figure;
    figure.summary = read_summary(reader, at, figure.values);
    if (at.json.contains("share_of_peak"))
        figure.share_of_peak = reader.number_or_null(reader.member(at, "share_of_peak"));
    return figure;
}

/// Figures belong to targets, and each stands there once.
void check_names(Reader& reader, const ResultFile& file) {
    std::set<std::string> targets;
    for (std::size_t i = 0; i < file.targets.size(); ++i)
        if (!targets.insert(file.targets[i].name).second)
            reader.complain("targets[" + std::to_string(i) + "].name", "stands there twice");
    std::set<std::tuple<std::string, std::string, std::string>> seen;
    for (std::size_t i = 0; i < file.figures.size(); ++i) {
        const ResultFigure& figure = file.figures[i];
        const std::string where = "figures[" + std::to_string(i) + "]";
        if (!targets.contains(figure.target)) reader.complain(where + ".target", "is the name of no target");
        if (!seen.insert({figure.target, figure.test, figure.metric}).second)
            reader.complain(where, "has the target, case and metric of another figure");
    }
}

void read_header(Reader& reader, const JsonPlace& top) {
    if (reader.text(reader.member(top, "format")) != kFormat)
        reader.complain("format", "is not \"iobench\": no result of iobench run");
    const JsonPlace version = reader.member(top, "version");
    if (reader.count(version) != kVersion)
        reader.complain("version", "is " + version.json.dump() + "; this iobench reads version 1");
}

bool ends_with(const std::string& text, std::string_view end) {
    return text.size() > end.size() && text.ends_with(end);
}

}  // namespace

std::string unit_of(const std::string& metric) {
    if (ends_with(metric, "mb_per_s") || metric == "mb_per_s") return "MB/s";
    if (ends_with(metric, "_per_s")) {
        const std::string what = metric.substr(0, metric.size() - 6);
        return what.substr(what.rfind('_') + 1) + "/s";
    }
    if (metric == "seconds") return "s";
    constexpr std::array<std::pair<const char*, const char*>, 10> kUnits = {{{"_percent", "%"},
                                                                             {"_s_per_gib", "s/GiB"},
                                                                             {"_seconds", "s"},
                                                                             {"_s", "s"},
                                                                             {"_ms", "ms"},
                                                                             {"_us", "us"},
                                                                             {"_ns", "ns"},
                                                                             {"_mb", "MB"},
                                                                             {"_bytes", "bytes"},
                                                                             {"_ratio", "ratio"}}};
    for (const auto& [end, unit] : kUnits)
        if (ends_with(metric, end)) return unit;
    return metric.substr(metric.rfind('_') + 1);
}

Json to_json(const ResultFile& file) {
    Json json = {{"format", kFormat},
                 {"version", kVersion},
                 {"tierfs", file.tierfs},
                 {"command", file.command},
                 {"started", file.started},
                 {"ended", file.ended},
                 {"complete", file.complete},
                 {"suite", file.suite},
                 {"preset", or_null(file.preset)},
                 {"parameters", file.parameters},
                 {"dataset_rule", file.dataset_rule},
                 {"host", file.host},
                 {"targets", Json::array()},
                 {"figures", Json::array()},
                 {"disturbances", Json::array()},
                 {"warnings", file.warnings}};
    for (const auto& target : file.targets) json["targets"].push_back(json_of(target));
    for (const auto& figure : file.figures) json["figures"].push_back(json_of(figure));
    for (const auto& disturbance : file.disturbances)
        json["disturbances"].push_back({{"target", disturbance.target},
                                        {"case", disturbance.test},
                                        {"run", disturbance.run},
                                        {"what", disturbance.what}});
    return json;
}

Result<ResultFile> from_json(const Json& json, const std::string& name) {
    Reader reader(name);
    const JsonPlace top{json, ""};
    read_header(reader, top);
    ResultFile file;
    file.tierfs = reader.text(reader.member(top, "tierfs"));
    file.command = reader.texts(reader.member(top, "command"));
    file.started = reader.text(reader.member(top, "started"));
    file.ended = reader.text(reader.member(top, "ended"));
    file.complete = reader.truth(reader.member(top, "complete"));
    file.suite = reader.text(reader.member(top, "suite"));
    file.preset = reader.text_or_null(reader.member(top, "preset"));
    file.parameters = reader.object(reader.member(top, "parameters"));
    file.dataset_rule = reader.text(reader.member(top, "dataset_rule"));
    file.host = reader.object(reader.member(top, "host"));
    for (const JsonPlace& at : reader.list(reader.member(top, "targets")))
        file.targets.push_back(read_target(reader, at));
    for (const JsonPlace& at : reader.list(reader.member(top, "figures")))
        file.figures.push_back(read_figure(reader, at));
    for (const JsonPlace& at : reader.list(reader.member(top, "disturbances")))
        file.disturbances.push_back({.target = reader.text(reader.member(at, "target")),
                                     .test = reader.text(reader.member(at, "case")),
                                     .what = reader.text(reader.member(at, "what")),
                                     .run = reader.count(reader.member(at, "run"))});
    file.warnings = reader.texts(reader.member(top, "warnings"));
    if (!reader.failed()) check_names(reader, file);
    if (reader.failed()) return fail(reader.error());
    return file;
}

Result<void> write_result(const std::string& path, const ResultFile& file) {
    const std::string text = to_json(file).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
    return write_atomically(path, true,
                            [&](const Sink& sink) { return sink(std::as_bytes(std::span(text))); });
}

Result<ResultFile> read_result(const std::string& path) {
    struct stat attributes {};  // before opening: that would wait at a pipe
    if (stat(path.c_str(), &attributes) != 0) return fail(system_error(errno, path));
    if (!S_ISREG(attributes.st_mode)) return fail(EINVAL, path + ": is not a regular file");
    if (static_cast<std::uint64_t>(attributes.st_size) > kLargest)
        return fail(EFBIG, path + ": is larger than 256 MiB: no result of iobench run");
    const Fd opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));  // the user's own file: links are followed
    if (opened.get() < 0) return fail(system_error(errno, path));
    std::string text(static_cast<std::size_t>(attributes.st_size), '\0');
    const auto n = read_at(opened, std::as_writable_bytes(std::span(text)), 0, path);
    if (!n) return fail(n.error());
    text.resize(*n);
    try {
        bool deep = false;  // copying and writing need stack for each level
        const auto json = Json::parse(text, [&](int depth, Json::parse_event_t, const Json&) {
            deep = deep || depth > kDeepest;
            return !deep;
        });
        if (deep) return fail(EINVAL, path + ": is nested too deeply: no result of iobench run");
        return from_json(json, path);
    } catch (const nlohmann::json::exception& error) {
        return fail(EINVAL, path + ": is not JSON: " + error.what());
    }
}

}  // namespace tierfs::iobench
