// All settings of a mount, typed. One table (config/settings.cpp) gives for each key its type, default, range
// and help; from it come the YAML reader, the -o parser, the environment, --help, `tierfs config --defaults`
// and the reference part of the man page.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/base/result.hpp"
#include "config/base/units.hpp"
#include "config/dataset_rules.hpp"

namespace tierfs {

enum class Profile { small, large, automatic };
enum class AddressingStyle { automatic, path, virtual_host };
enum class NfsMode { soft, hard };

/// What a mount was asked to be. A plain value: made once at start, then only read.
struct Settings {
    // mount
    std::string source;      ///< as given: s3://bucket/prefix, nfs://host/export, /dir, file:///dir
    std::string mountpoint;  ///< absolute
    bool read_only = true;   ///< `ro`; `rw` and `writable` are ro=false
    bool allow_other = false;
    bool allow_suid = false;
    Profile profile = Profile::automatic;
    bool supervisor = true;      ///< a new daemon takes over from one that died
    unsigned restart_limit = 5;  ///< restart.limit: as many within a minute, then the mount ends
    std::chrono::milliseconds metadata_ttl{60000};  ///< metadata.ttl; kForever for immutable datasets
    std::string metadata_acl = "auto";              ///< metadata.acl: auto, true, false
    bool metadata_stale =
        true;  ///< metadata.stale: read-only, what is known goes on while the origin is away

    // memory and tiers; bytes
    std::uint64_t memory_limit = 0;  ///< memory.limit; resolved at load: min(25 % of the cgroup, 8 GiB)
    std::optional<std::uint64_t> ram_limit;  ///< ram.limit; empty: what memory.limit leaves; 0: no RAM tier
    std::string nvme_path;             ///< nvme.path: folders with ':' between them; empty: no NVMe tier
    std::uint64_t nvme_limit = 0;      ///< nvme.limit, of all devices; 0: 80 % of their free space at start
    std::uint64_t nvme_keep_free = 0;  ///< nvme.keep_free, of each device's file system, bytes
    Codec nvme_codec = Codec::none;    ///< nvme.codec: of what no rule names one for
    std::uint64_t pin_limit = 0;       ///< pin.limit; 0: three quarters of the NVMe tier, without one of RAM
    std::string verify = "auto";       ///< verify: auto, or always: also what readers could read past us
    std::string index_path;            ///< index.path; empty: on the cache device, else a scratch directory
    std::uint64_t pack_max_object =
        1 << 20;  ///< pack.max_object: up to this size objects are packed in extents
    std::uint64_t prefetch_window = 64 << 20;  ///< prefetch.window: the largest readahead of one stream

    unsigned promote_after_reads = 1;                  ///< promote.after_reads: NVMe to RAM
    std::chrono::milliseconds promote_within{600000};  ///< promote.within
    std::chrono::milliseconds demote_idle = kForever;  ///< demote.idle: out of RAM

    DatasetClass dataset_class = DatasetClass::automatic;  ///< class: of what no rule is for
    std::vector<DatasetRule> datasets;  ///< datasets, of the YAML file alone; first match wins

    std::string pack;  ///< pack: where a pack of the source is, a SOURCE itself; empty: none
    std::string pack_staleness = "trust";  ///< pack.staleness: trust, list, check

    std::string writes = "through";   ///< writes: through, back
    std::string journal_path;         ///< journal.path; empty: there is none
    std::uint64_t journal_limit = 0;  ///< journal.limit, bytes; 0: what its file system has
    bool writes_exclusive = false;    ///< writes.exclusive: of buckets, a lost update is an error

    bool writes_link = true;   ///< writes.link: of buckets, link(2) makes a second object
    bool writes_claim = true;  ///< writes.claim: of buckets, O_EXCL makes the object when it is opened

    std::string direct_passthrough = "auto";  ///< direct.passthrough: auto, true, false
    std::string writes_passthrough = "auto";  ///< writes.passthrough: auto, true, false

    std::string fill_shard;  ///< fill.shard: "I/N", this node reads that share of the files; empty: not known

    std::string fill_ahead = "auto";  ///< fill.ahead: auto, all, off, or files for each that was read

    // origin
    std::chrono::milliseconds origin_deadline{
        30000};                         ///< origin.deadline: one operation, its retries included
    unsigned origin_connections = 128;  ///< origin.connections: at most this many at a time
    unsigned origin_hedge = 5;          ///< origin.hedge: percent of additional requests; 0: none

    // s3
    std::string s3_endpoint;  ///< s3.endpoint; empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, then AWS's own
    std::string
        s3_region;  ///< s3.region; empty: AWS_REGION, AWS_DEFAULT_REGION, the profile's, then us-east-1
    std::string s3_profile;  ///< s3.profile; empty: AWS_PROFILE, then "default"
    AddressingStyle s3_addressing =
        AddressingStyle::automatic;  ///< s3.addressing; auto: path for an own endpoint
    bool s3_anonymous = false;       ///< s3.anonymous: send unsigned requests
    std::string s3_ca_bundle;        ///< s3.ca_bundle; empty: AWS_CA_BUNDLE, system's
    bool s3_requester_pays = false;  ///< s3.requester_pays
    std::string s3_bucket_owner;     ///< s3.bucket_owner: an AWS account; empty: whose it is, is not asked
    std::string s3_storage_class;    ///< s3.storage_class of what is written; empty: the bucket's
    std::string s3_acl;              ///< s3.acl: canned, of what is written
    std::string s3_encryption =
        "none";                   ///< s3.encryption of what is written: none, AES256, aws:kms, aws:kms:dsse
    std::string s3_kms_key;       ///< s3.kms_key: id or ARN
    std::string s3_customer_key;  ///< s3.customer_key: path of a file
    std::uint32_t s3_uid = 0, s3_gid = 0;  ///< s3.uid, s3.gid: owner shown; default: who mounts
    std::string s3_metadata = "auto";      ///< s3.metadata: auto, always, never
    std::uint32_t s3_file_mode = 0444, s3_directory_mode = 0555;  ///< s3.file_mode, s3.directory_mode

    // nfs
    NfsMode nfs_mode = NfsMode::soft;        ///< nfs.mode; hard: origin_deadline becomes years
    unsigned nfs_connections = 4;            ///< nfs.connections
    unsigned nfs_port = 0;                   ///< nfs.port; 0: asked of the portmapper
    unsigned nfs_mount_port = 0;             ///< nfs.mount_port; 0: asked of the portmapper
    std::uint32_t nfs_uid = 0, nfs_gid = 0;  ///< nfs.uid, nfs.gid: who asks; default: who mounts

    std::string metrics_listen;  ///< metrics.listen (config/listen_address.hpp); empty: nobody is answered

    // log
    std::string log_level = "info";  ///< log.level: debug, info, warning, error
    std::string log_file;  ///< log.file; empty: standard error (-f), else /var/log/tierfs/… or none
    std::string log_format = "text";  ///< log.format: text, json
    std::uint64_t log_max_size = 0;   ///< log.max_size: bytes after which log.file is put aside; 0: never

    bool foreground = false;        ///< -f
    std::uint32_t mount_flags = 0;  ///< MS_* of mount(2), by options of mount(8) (config/mount_options.hpp)
};

/// Each setting with its value as it is written, in the order of the manual.
std::vector<std::pair<std::string, std::string>> settings_values(const Settings& settings);

/// The folders in a value such as nvme.path: "/a:/b". Empty for an empty text.
std::vector<std::string> split_paths(std::string_view text);

/// Whether `path` is `folder` or lies below it, by name alone: the folder may be a mount that hangs.
bool is_path_within(const std::string& path, const std::string& folder);

/// Where settings come from, weakest first: defaults, YAML file (`config=`), environment (TIERFS_MEMORY_LIMIT
/// for memory.limit), -o options.
struct SettingsSources {
    std::string source, mountpoint;
    std::vector<std::string> options;  ///< each "k=v" or "flag", in order; of the same key the last wins
    std::map<std::string, std::string> environment;  ///< the process's, or a test's
    bool foreground = false;
};

/// Merges and checks. Unknown keys, wrong units and impossible combinations are refused with the place
/// (file:line, or -o, or the variable), the key, what was found and what is allowed. config/mount_options.hpp
/// says what becomes of mount(8)'s own options.
Result<Settings> load_settings(const SettingsSources& sources);

/// A table of the -o keys with defaults, for --help.
std::string settings_help();

/// A commented YAML file with every key at its default. load_settings accepts it as it is.
std::string settings_defaults_yaml();

/// Reads and checks a YAML file alone (`tierfs config --check FILE`): what it sets.
Result<Settings> check_settings_file(const std::string& path);

/// The reference of keys in man(7) markup, for tierfs.8.
std::string settings_man();

}  // namespace tierfs
