#include "fs/commands/pack.hpp"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "backends/origin/writable_origin.hpp"
#include "backends/source_url.hpp"
#include "config/base/json_text.hpp"
#include "config/base/mutex.hpp"
#include "config/base/units.hpp"
#include "fs/cli/environment.hpp"
#include "fs/cli/progress.hpp"
#include "fs/cli/say.hpp"
#include "fs/cli/signals.hpp"
#include "fs/commands/commands.hpp"
#include "fs/commands/parse.hpp"
#include "fs/pack/publish.hpp"
#include "fs/pack/verify_pack.hpp"

namespace tierfs {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMemoryOfWorker = 160 << 20;
constexpr unsigned kMostWorkers = 16;

/// The settings of an origin that is no mount's. A path may be relative.
Result<Settings> settings_of(const std::string& source, const std::vector<std::string>& lists) {
    SettingsSources sources;
    const bool is_path = source.find("://") == std::string::npos && !source.empty();
    sources.source = is_path ? fs::absolute(source).lexically_normal().string() : source;
    for (const auto& list : lists) {
        const auto options = split_options(list);
        sources.options.insert(sources.options.end(), options.begin(), options.end());
    }
    sources.environment = process_environment();
    return load_settings(sources);
}

bool lies_within(const std::string& inner, const std::string& outer) {
    return inner == outer || inner.starts_with(outer.ends_with('/') ? outer : outer + "/");
}

/// What is packed must not change by it.
Result<void> are_apart(const Origin& source, const Origin& dest) {
    const auto a = source.identity(), b = dest.identity();
    if (lies_within(a, b) || lies_within(b, a))
        return fail(EINVAL, "SOURCE and DEST must not lie within each other: " + a + ", " + b);
    return {};
}

Result<std::unique_ptr<Origin>> open_dest(const std::string& dest, const std::vector<std::string>& options,
                                          bool make) {
    auto settings = settings_of(dest, options);
    if (!settings) return fail(settings.error());
    if (const auto folder = directory_of_source(settings->source); folder && make) {
        std::error_code error;
        fs::create_directories(*folder, error);
        if (error) return fail(system_error(error.value(), *folder));
    }
    return open_origin(*settings);
}

std::string progress_text(const pack::Progress& progress, double seconds) {
    const std::uint64_t done = progress.bytes, total = progress.bytes_total;
    if (total == 0) return "listing the source";
    const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    std::string text = format_size(done) + " of " + format_size(total) + ", " +
                       std::to_string(progress.files) + " of " + std::to_string(progress.files_total) +
                       " files, " + format_size(static_cast<std::uint64_t>(rate)) + "/s";
    if (rate > 0)
        text += ", ETA " +
                std::to_string(static_cast<std::uint64_t>(static_cast<double>(total - done) / rate)) + " s";
    return text;
}

/// Shows the progress from a thread of its own as long as it lives.
class Teller {
  public:
    explicit Teller(const pack::Progress& progress) : thread_([this, &progress] { run(progress); }) {}
    ~Teller() {
        {
            const MutexLock lock(mutex_);
            ended_ = true;
            changed_.notify_all();
        }
        thread_.join();
    }
    Teller(const Teller&) = delete;
    Teller& operator=(const Teller&) = delete;

  private:
    void run(const pack::Progress& progress) {
        constexpr auto kTick = std::chrono::milliseconds(200);
        ProgressLine line;
        MutexLock lock(mutex_);
        while (!ended_) {
            line.tell([&](double seconds) { return progress_text(progress, seconds); });
            lock.wait_for(changed_, kTick);
        }
        line.end();
    }

    Mutex mutex_;
    std::condition_variable changed_;
    bool ended_ TIERFS_GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

nlohmann::ordered_json manifest_json(const pack::Manifest& manifest) {
    nlohmann::ordered_json json;
    put_text(json, "source", manifest.source);
    json["index"] = to_string(manifest.index);
    json["index_bytes"] = manifest.index_bytes;
    json["files"] = manifest.files;
    json["directories"] = manifest.directories;
    json["symlinks"] = manifest.symlinks;
    json["bytes"] = manifest.bytes;
    json["packed_files"] = manifest.packed_files;
    json["packed_bytes"] = manifest.packed_bytes;
    json["extents"] = manifest.extents;
    json["extent_bytes"] = manifest.extent_bytes;
    json["codec"] = pack::to_string(manifest.codec);
    return json;
}

struct Request {
    std::string source, dest, order_file;
    Share shard;
    std::optional<pack::PackingCodec> codec;
    std::vector<std::string> options;
    bool dry_run = false, json = false, update = false, prune = false;
};

void report(const Request& request, const pack::Published& published, const pack::Progress& progress) {
    const auto& manifest = published.manifest;
    for (const auto& remark : published.remarks) say_line(stderr, "tierfs: " + remark);
    if (request.json) {
        auto json = manifest_json(manifest);
        json["found_extents"] = published.found;
        json["removed_files"] = published.removed;
        json["was_there"] = published.was_there;
        json["complete"] = published.is_complete;
        json["parts"] = published.parts;
        json["bytes_read"] = progress.bytes_read.load();
        json["bytes_written"] = progress.bytes_written.load();
        say_json(stdout, json.dump(2));
        return;
    }
    if (!published.is_complete && !request.dry_run) {
        sayf(stdout,
             "shard %llu of %llu is packed, %s read; shards that have ended: %llu; the last completes the "
             "pack\n",
             static_cast<unsigned long long>(request.shard.index),
             static_cast<unsigned long long>(request.shard.count), format_size(progress.bytes_read).c_str(),
             static_cast<unsigned long long>(published.parts));
        return;
    }
    sayf(stdout, "%s%llu files, %s, of these %llu files, %s in %llu extents (%llu were there already)\n",
         request.dry_run       ? "to be packed: "
         : published.was_there ? "complete before: "
                               : "packed: ",
         static_cast<unsigned long long>(manifest.files), format_size(manifest.bytes).c_str(),
         static_cast<unsigned long long>(manifest.packed_files), format_size(manifest.packed_bytes).c_str(),
         static_cast<unsigned long long>(manifest.extents), static_cast<unsigned long long>(published.found));
    if (manifest.codec.codec != Codec::none && !request.dry_run)
        sayf(stdout, "codec %s: the extents take %s\n", pack::to_string(manifest.codec).c_str(),
             format_size(manifest.extent_bytes).c_str());
}

Result<std::string> text_of(const std::string& file) {
    std::ifstream stream(file, std::ios::binary);
    std::string text(std::istreambuf_iterator<char>(stream), {});
    if (!stream.is_open() || stream.bad()) return fail(system_error(errno, file));
    return text;
}

Result<void> run(const Request& request, const Settings& settings, Origin& source, const StopFlag& stop) {
    if (auto checked = source.check(); !checked) return checked;
    // What is looked for is not made.
    auto dest = open_dest(request.dest, request.options, !request.dry_run);
    if (!dest && request.dry_run && dest.error().code == ENOENT)
        return fail(ENOENT, dest.error().message + " (with --dry-run DEST is not made)");
    if (!dest) return fail(dest.error());
    if (auto apart = are_apart(source, **dest); !apart) return apart;
    if ((*dest)->writable() == nullptr) return fail(EROFS, request.dest + " cannot be written to");
    pack::PublishOptions options;
    options.max_object = settings.pack_max_object;
    options.dry_run = request.dry_run;
    options.update = request.update;
    options.prune = request.prune;
    options.shard = request.shard;
    options.codec = request.codec;
    if (!request.order_file.empty()) {
        auto order = text_of(request.order_file);
        if (!order) return fail(order.error());
        options.order = std::move(*order);
    }
    options.workers = static_cast<unsigned>(
        std::clamp<std::uint64_t>(settings.memory_limit / kMemoryOfWorker, 1, kMostWorkers));
    pack::Progress progress;
    auto published = [&] {
        const Teller teller(progress);
        return pack::publish(source, **dest, options, progress, [&stop] { return stop.requested(); });
    }();
    (*dest)->stop();
    if (!published) return fail(published.error());
    report(request, *published, progress);
    return {};
}

}  // namespace

int pack_command(const std::vector<std::string>& arguments) {
    Request request;
    CLI::App app("Publishes a dataset as a pack: its names in one file, its small files in large ones",
                 "tierfs pack");
    app.add_option("SOURCE", request.source, "the dataset; it is only read")->required();
    app.add_option("DEST", request.dest, "s3://BUCKET/PREFIX or a folder, for this pack alone")->required();
    app.add_option("-o", request.options, "settings of tierfs(8) for both, KEY=VALUE,...")
        ->allow_extra_args(false);
    app.add_option("--order", request.order_file,
                   "pack the files of this list first, a path a line, as tierfs trace --order writes it");
    app.add_flag("--update", request.update,
                 "replace a pack of an earlier state of SOURCE; what has not changed is not read");
    app.add_flag("--prune", request.prune, "remove what earlier packs have left in DEST, at the end");
    std::string shard = "0/1";
    app.add_option(
        "--shard", shard,
        "I/N, I from 0: pack this share of the extents; the last of N such runs completes the pack");
    std::string codec;
    app.add_option(
        "--codec", codec,
        "none, lz4, zstd or zstd:LEVEL (1 to 19, 3 if none is given): compress files where that saves 12 %; "
        "without this, as the pack in DEST, else none");
    app.add_flag("--dry-run", request.dry_run, "only show what would be packed");
    app.add_flag("--json", request.json, "print what came of it as JSON");
    if (const auto ended = parse_arguments(app, arguments)) return *ended;
    const auto share = parse_share(shard);
    if (!share) return wrong_usage("--shard: " + share.error().message, "tierfs pack");
    request.shard = *share;
    if (app.count("--codec") != 0) {
        const auto parsed = pack::parse_packing_codec(codec);
        if (!parsed) return wrong_usage("--codec: " + parsed.error().message, "tierfs pack");
        request.codec = *parsed;
    }
    const auto settings = settings_of(request.source, request.options);
    if (!settings) return settings_refused(settings.error());
    StopFlag stop;
    const Signals signals(stop);
    auto source = open_origin(*settings);
    if (!source) return command_failed(source.error().message);
    const auto done = run(request, *settings, **source, stop);
    const int status = done ? 0 : command_failed(done.error().message);
    (*source)->stop();
    if ((*source)->is_held()) {
        std::fflush(nullptr);
        ::_exit(status);
    }
    return status;
}

bool is_pack(const std::string& path) {
    std::error_code ignored;
    return path.find("://") != std::string::npos ||
           fs::is_regular_file(fs::path(path) / pack::kManifest, ignored);
}

int verify_pack_command(const std::string& path, const std::vector<std::string>& options, bool json) {
    auto dest = open_dest(path, options, false);
    if (!dest) return command_failed(dest.error().message);
    ProgressLine line;
    const auto report = pack::verify_pack(**dest, [&](const pack::PackReport& so_far) {
        line.tell([&](double seconds) {
            const auto rate = seconds > 0 ? static_cast<double>(so_far.bytes) / seconds : 0;
            return format_size(so_far.bytes) + " of " + format_size(so_far.manifest.extent_bytes) +
                   " verified, " + format_size(static_cast<std::uint64_t>(rate)) + "/s";
        });
    });
    line.end();
    (*dest)->stop();
    if (!report) return command_failed(report.error().message);
    for (const auto& bad : report->first_bad)
        if (!json) sayf(stderr, "tierfs: %s: %s\n", printable(bad.file).c_str(), printable(bad.what).c_str());
    if (json) {
        auto text = manifest_json(report->manifest);
        text["pack"] = path;
        text["bad_files"] = report->bad;
        text["bad"] = nlohmann::ordered_json::array();
        for (const auto& bad : report->first_bad)
            text["bad"].push_back({{"file", printable(bad.file)}, {"what", printable(bad.what)}});
        say_json(stdout, text.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
        sayf(stdout, "%s: %llu extents, %llu packed files, %s verified, %llu bad\n", printable(path).c_str(),
             static_cast<unsigned long long>(report->extents), static_cast<unsigned long long>(report->files),
             format_size(report->bytes).c_str(), static_cast<unsigned long long>(report->bad));
    }
    return report->bad == 0 ? 0 : 1;
}

}  // namespace tierfs
