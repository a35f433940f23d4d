#include "config/settings_table.hpp"

#include <unistd.h>

#include <algorithm>
#include <numeric>

#include "config/base/units.hpp"

namespace tierfs::settings {
namespace {

constexpr std::uint64_t kMostTime = kLargestSize;  // kForever
constexpr std::uint64_t kMostId = 0xfffffffe;      // (uid_t)-1 means "no change" to the kernel

using S = Settings;

std::vector<Key> make_table() {
    return {
        {"ro", Kind::flag, &S::read_only,
         "Mount read-only. rw and writable mean ro=false. mount(8) says rw where nobody says anything, and "
         "makes ro of ro=false: there, and in fstab, it is writable that counts."},
        {"writable",
         Kind::flag,
         &S::read_only,
         "Mount writable, as rw does: the word for mount(8) and fstab, which pass it on.",
         0,
         0,
         false,
         false,
         {},
         true},
        {"allow_other", Kind::flag, &S::allow_other,
         "Let other users than the one who mounts see the files."},
        {"allow_suid", Kind::flag, &S::allow_suid, "Honour set-user-ID bits and device files of the origin."},
        {"writes",
         Kind::choice,
         &S::writes,
         "Of buckets that are mounted writable. through: close and fsync return when what was written is at the bucket; "
         "back: when it is in the journal of this node (journal.path), from where it is brought to the bucket later, in "
         "order, also after a crash. Other nodes see it then; another host's change is never overwritten.",
         0,
         0,
         false,
         false,
         {"through", "back"}},
        {"writes.exclusive", Kind::flag, &S::writes_exclusive,
         "Of buckets that are mounted writable: what another host has written since a file was opened for "
         "writing here is not overwritten, and close or fsync fails (ESTALE; EEXIST of a new file). The "
         "server "
         "must know If-Match and If-None-Match on PUT."},
        {"writes.claim", Kind::flag, &S::writes_claim,
         "Of buckets that are mounted writable: who creates a file with O_EXCL makes an empty object at once, which "
         "the server refuses where another host has made one, so that the open fails with EEXIST; false: close "
         "does, which saves a request for each such file (cp, tar and rsync create theirs so). The server must "
         "know If-None-Match on PUT."},
        {"writes.link", Kind::flag, &S::writes_link,
         "Of buckets that are mounted writable: link(2) makes a second object out of a file, where there is none of "
         "that name; false: it is refused (EPERM)."},
        {"writes.passthrough",
         Kind::choice,
         &S::writes_passthrough,
         "Of directories that are mounted writable: the kernel itself writes files, and reads those that "
         "have "
         "just been written. auto: of ext4, XFS, Btrfs, F2FS and tmpfs, where the kernel gives it; true: of "
         "any file system that the kernel gives it for, and also what is opened with O_APPEND or O_DIRECT; "
         "false: each write is answered by the daemon. With writes=back it writes new files of buckets so, where "
         "journal.path is on XFS or Btrfs of Linux 6.13 or later.",
         0,
         0,
         false,
         false,
         {"auto", "true", "false"}},
        {"profile",
         Kind::choice,
         &S::profile,
         "small: an open costs no message; large: each open is answered by the daemon; auto begins as large "
         "and "
         "becomes small when most files are.",
         0,
         0,
         false,
         false,
         {"small", "large", "auto"}},
        {"supervisor", Kind::flag, &S::supervisor,
         "When the daemon dies a new one takes the mount over, and readers wait meanwhile; off: the mount "
         "ends."},
        {"restart.limit", Kind::count, &S::restart_limit,
         "A daemon that dies more often than this within a minute is not replaced: the mount ends.", 1, 1000},
        {"class",
         Kind::choice,
         &S::dataset_class,
         "How the dataset is read. epoch: the tiers fill, then keep what they hold; hot: the least used "
         "goes; "
         "stream, once: nothing is written to the NVMe tier; pin: all of it stays; none: nothing is kept; "
         "auto: "
         "by watching.",
         0,
         0,
         false,
         false,
         {"auto", "epoch", "hot", "stream", "once", "pin", "none"}},
        {"metadata.ttl", Kind::duration, &S::metadata_ttl,
         "How long names and attributes are trusted; forever for datasets that never change.", 0, kMostTime},
        {"metadata.stale", Kind::flag, &S::metadata_stale,
         "Of read-only mounts: while the source does not answer, names and attributes that are known go on, however old, "
         "and so do the bytes that the tiers hold; false, and with pack.staleness=check: for one more metadata.ttl. With metadata.ttl=0s nothing does."},
        {"metadata.acl",
         Kind::choice,
         &S::metadata_acl,
         "Of directories that are mounted read-only: the kernel checks the source's access control lists, which costs who does "
         "not own a file one more request when he opens it first. auto: where the source directory has a list itself; false: "
         "nobody gets in by a list.",
         0,
         0,
         false,
         false,
         {"auto", "true", "false"}},
        {"memory.limit", Kind::size, &S::memory_limit,
         "Memory of the whole process; auto: 25 % of the cgroup's limit, at most 8G.", 96 * kMiB,
         kLargestSize, false, true},
        {"ram.limit", Kind::size, &S::ram_limit,
         "The RAM tier's part of memory.limit; 0: no RAM tier; auto: what memory.limit leaves.", 0,
         kLargestSize, false, true},
        {"nvme.path", Kind::paths, &S::nvme_path,
         "Folder on a local device for the NVMe tier, or several, each on a device of its own; empty: no "
         "NVMe "
         "tier."},
        {"nvme.limit", Kind::size, &S::nvme_limit,
         "Bytes that the NVMe tier may take, its index apart, on all devices together: divided by the space "
         "that each has for it; 0 or auto: 80 % of the free space at start. An object larger than half of "
         "a device's part is not kept there.",
         16 * kMiB, kLargestSize, true, true},
        {"nvme.keep_free", Kind::size, &S::nvme_keep_free,
         "Bytes of each device's file system that stay free for others: while they fill it, the tier gives "
         "way, and comes back when they go.",
         0, kLargestSize},
        {"nvme.codec",
         Kind::choice,
         &S::nvme_codec,
         "Objects that are packed into extents are compressed so, each where that saves 12 % of its place; "
         "zstd "
         "saves more, lz4 costs less. Of what no rule of datasets names a codec for.",
         0,
         0,
         false,
         false,
         {"none", "lz4", "zstd"}},
        {"pin.limit", Kind::size, &S::pin_limit,
         "Bytes that `tierfs pin` may hold in the tiers for good; 0 or auto: three quarters of the NVMe "
         "tier, "
         "or of RAM where there is none; at most 15 of 16 parts.",
         1, kLargestSize, true, true},
        {"verify",
         Kind::choice,
         &S::verify,
         "auto: the kernel itself reads large files that are complete on the NVMe tier, once each of them "
         "has been "
         "verified; always: every read of the tier is verified, which costs speed.",
         0,
         0,
         false,
         false,
         {"auto", "always"}},
        {"index.path", Kind::path, &S::index_path,
         "Folder of the index; empty: on the NVMe tier's device, else a scratch directory."},
        {"pack.path", Kind::text, &S::pack,
         "A pack of the source, made by `tierfs pack`: s3://BUCKET/PREFIX or a folder. Names come from it "
         "alone, "
         "small files out of its extents; whether it is trusted to be what the source is, pack.staleness "
         "says. "
         "Empty: there is none. "
         "Short: "
         "pack."},
        {"pack.staleness",
         Kind::choice,
         &S::pack_staleness,
         "What is done about a source that has changed since it was packed. trust: nothing, for datasets "
         "that "
         "never change. list: it is listed in the background, and what differs from the pack comes from it. "
         "check: names come from the source, as without a pack, and small files that have not changed out of "
         "the pack.",
         0,
         0,
         false,
         false,
         {"trust", "list", "check"}},
        {"pack.max_object", Kind::size, &S::pack_max_object,
         "Objects up to this size are packed into extents.", 0, kMiB},
        {"prefetch.window", Kind::size, &S::prefetch_window,
         "The largest readahead of one stream, at most a quarter of the memory for data; 0: none.", kMiB,
         kGiB, true},
        {"promote.after_reads", Kind::count, &S::promote_after_reads,
         "What is read from the NVMe tier comes into RAM with so many reads within promote.within; 1: with "
         "the "
         "first.",
         1, 8},
        {"promote.within", Kind::duration, &S::promote_within,
         "The time that the reads of promote.after_reads may be apart.", 1000, kMostTime},
        {"demote.idle", Kind::duration, &S::demote_idle,
         "What was not read for so long leaves RAM, but for what is pinned; forever: nothing does.", 1000,
         kMostTime},
        {"direct.passthrough",
         Kind::choice,
         &S::direct_passthrough,
         "Of read-only mounts: the kernel itself reads complete files for who opens them with O_DIRECT, too, and refuses (EINVAL) "
         "what is not aligned as the cache's file system wants it. auto: until somebody reads so at an offset or of a length "
         "that is no multiple of 4 KiB; false: the daemon answers, whatever the alignment.",
         0,
         0,
         false,
         false,
         {"auto", "true", "false"}},
        {"journal.path", Kind::path, &S::journal_path,
         "Folder of the journal of writes=back, on a file system of this node that keeps what was synced: one for all "
         "mounts will do. XFS and Btrfs share what a file and its next version have in common."},
        {"journal.limit", Kind::size, &S::journal_limit,
         "So much of what is still to be brought to the bucket the journal holds; then writers wait, and get ENOSPC after "
         "origin.deadline; 0: what its file system has.",
         64 * kMiB, kLargestSize, true},
        {"fill.shard", Kind::text, &S::fill_shard,
         "I/N: of the files in the order in which the cache is filled, this node reads those whose number, "
         "from 0 on, leaves I when divided by N; only these are fetched ahead of all reads, from the start. "
         "Empty: by watching."},
        {"fill.ahead", Kind::text, &S::fill_ahead,
         "Small files that are fetched ahead of readers who read a dataset without a class in no order; not of "
         "fill.shard. auto: as many as cost these readers little, more where they find them; all: as fast as it "
         "goes; a number: at most so many for each file that was read; off: none."},
        {"origin.deadline", Kind::duration, &S::origin_deadline,
         "One operation on the origin, its retries included, takes no longer than this.", 1000, 3600000},
        {"origin.connections", Kind::count, &S::origin_connections,
         "At most this many connections to the origin.", 1, 1024},
        {"origin.hedge", Kind::count, &S::origin_hedge,
         "Reads of objects that take unusually long are sent a second time, at most so many per 100, fewer "
         "while that does not help; 0: none.",
         0, 50},
        {"s3.endpoint", Kind::url, &S::s3_endpoint,
         "URL of the server; empty: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, then AWS's own."},
        {"s3.region", Kind::text, &S::s3_region,
         "Region; empty: AWS_REGION, AWS_DEFAULT_REGION, the profile's, then us-east-1."},
        {"s3.profile", Kind::text, &S::s3_profile,
         "Profile of the AWS files; empty: AWS_PROFILE, then default."},
        {"s3.addressing",
         Kind::choice,
         &S::s3_addressing,
         "Where the bucket's name stands in the URL; auto: path for an endpoint of your own.",
         0,
         0,
         false,
         false,
         {"auto", "path", "virtual"}},
        {"s3.anonymous", Kind::flag, &S::s3_anonymous, "Send unsigned requests, for public buckets."},
        {"s3.ca_bundle", Kind::path, &S::s3_ca_bundle,
         "File of trusted certificates; empty: AWS_CA_BUNDLE, then the system's."},
        {"s3.requester_pays", Kind::flag, &S::s3_requester_pays,
         "The account of the credentials pays for requests and transfer, as buckets with Requester Pays want it."},
        {"s3.bucket_owner", Kind::text, &S::s3_bucket_owner,
         "AWS account, 12 digits, that the bucket must belong to: requests to another one's bucket fail."},
        {"s3.storage_class", Kind::text, &S::s3_storage_class,
         "Storage class of what is written, renamed or changed, as INTELLIGENT_TIERING; empty: the server's default. "
         "Objects in GLACIER and DEEP_ARCHIVE can be read only after they were restored."},
        {"s3.acl", Kind::text, &S::s3_acl,
         "Canned access control list of what is written, renamed or changed, as bucket-owner-full-control; empty: the "
         "server's default."},
        {"s3.encryption",
         Kind::choice,
         &S::s3_encryption,
         "Encryption by the server of what is written, renamed or changed; none: as the bucket has it. What is read needs "
         "no setting.",
         0,
         0,
         false,
         false,
         {"none", "AES256", "aws:kms", "aws:kms:dsse"}},
        {"s3.kms_key", Kind::text, &S::s3_kms_key,
         "Id or ARN of the KMS key for s3.encryption=aws:kms and aws:kms:dsse; empty: the account's own for S3."},
        {"s3.customer_key", Kind::path, &S::s3_customer_key,
         "File with a key of 32 bytes, or its base64, by which the server encrypts and decrypts all objects of this "
         "mount without keeping it (SSE-C); readable by its owner alone. Objects without this key cannot be read then. "
         "Needs https, or a server on this machine."},
        {"s3.uid", Kind::count, &S::s3_uid, "Owner shown for every file; auto: who mounts.", 0, kMostId,
         false, true},
        {"s3.gid", Kind::count, &S::s3_gid, "Group shown for every file; auto: who mounts.", 0, kMostId,
         false, true},
        {"s3.metadata",
         Kind::choice,
         &S::s3_metadata,
         "Of buckets that are mounted read-only: modes, owners, times and symbolic links that writable mounts and s3fs "
         "keep with objects are shown, at the cost of a HEAD for each object. auto: in directories whose own "
         "object (KEY/) keeps a mode, and in the root of the mount when one of its first three objects does; never: "
         "all objects are files, as s3.uid, s3.gid and s3.file_mode have them.",
         0,
         0,
         false,
         false,
         {"auto", "always", "never"}},
        {"s3.file_mode", Kind::octal, &S::s3_file_mode,
         "Permissions shown for files that say none; on writable mounts the default is 0644.", 0, 0777},
        {"s3.directory_mode", Kind::octal, &S::s3_directory_mode,
         "Permissions shown for directories that say none; on writable mounts the default is 0755.", 0, 0777},
        {"nfs.mode",
         Kind::choice,
         &S::nfs_mode,
         "soft: a request that a dead server does not answer fails at origin.deadline; hard: it waits until "
         "the server is back, however long that takes.",
         0,
         0,
         false,
         false,
         {"soft", "hard"}},
        {"nfs.connections", Kind::count, &S::nfs_connections,
         "Connections to an NFS server, spread over its addresses; origin.connections requests are under way "
         "on them together.",
         1, 64},
        {"nfs.port", Kind::count, &S::nfs_port, "TCP port of the NFS server; 0: its portmapper knows.", 1,
         65535, true},
        {"nfs.mount_port", Kind::count, &S::nfs_mount_port,
         "TCP port of the NFS server's mount service; 0: its portmapper knows.", 1, 65535, true},
        {"nfs.uid", Kind::count, &S::nfs_uid,
         "The user that the NFS server is asked as (AUTH_SYS); auto: who mounts.", 0, kMostId, false, true},
        {"nfs.gid", Kind::count, &S::nfs_gid,
         "The group that the NFS server is asked as; auto: who mounts, with the further groups of the "
         "process.",
         0, kMostId, false, true},
        {"metrics.listen", Kind::address, &S::metrics_listen,
         "Where Prometheus may fetch metrics of this mount, as http://ADDRESS/metrics; empty: nowhere."},
        {"log.level",
         Kind::choice,
         &S::log_level,
         "The least important lines that are kept.",
         0,
         0,
         false,
         false,
         {"debug", "info", "warning", "error"}},
        {"log.file", Kind::path, &S::log_file,
         "File that lines are appended to; empty: standard error in the foreground, else a file in "
         "/var/log/tierfs."},
        {"log.format",
         Kind::choice,
         &S::log_format,
         "text: lines for people; json: an object a line, with time, level, pid and message.",
         0,
         0,
         false,
         false,
         {"text", "json"}},
        {"log.max_size", Kind::size, &S::log_max_size,
         "Bytes after which log.file is put aside as FILE.1, over the one before; 0: never.", 4096,
         kLargestSize, true},
    };
}

/// Edits between two short words (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t corner = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t changed = corner + (a[i - 1] == b[j - 1] ? 0 : 1);
            corner = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
        }
    }
    return row[b.size()];
}

}  // namespace

const std::vector<Key>& table() {
    static const std::vector<Key> keys = make_table();
    return keys;
}

const Key* find(std::string_view name) {
    if (name == "pack") name = "pack.path";
    for (const Key& key : table()) {
        if (key.name == name) return &key;
    }
    return nullptr;
}

std::string suggestion(std::string_view name) {
    name = name.substr(0, 64);  // a hostile key may be long, and the work grows with it
    std::string_view nearest;
    std::size_t least = std::max<std::size_t>(2, name.size() / 3) + 1;
    for (const Key& key : table()) {
        const std::size_t edits = distance(name, key.name);
        if (edits < least && edits < key.name.size()) {
            least = edits;
            nearest = key.name;
        }
    }
    return nearest.empty() ? std::string() : " (did you mean '" + std::string(nearest) + "'?)";
}

Settings defaults() {
    Settings settings;
    settings.s3_uid = geteuid();
    settings.s3_gid = getegid();
    settings.nfs_uid = geteuid();
    settings.nfs_gid = getegid();
    return settings;
}

}  // namespace tierfs::settings
