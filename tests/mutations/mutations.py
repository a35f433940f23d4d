"""The mutations: (file, old text, new text) with what they break and who must notice.

`old` must occur exactly once in the file. `tests` is a filter of GoogleTest; `mount` a pattern for pytest -k in
tests/mount. Keep each small, and of a kind that a hurried change could make.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    name: str
    what: str
    file: str
    old: str
    new: str
    tests: str = ""
    mount: str = ""


MUTATIONS = [
    Mutation(
        "single-flight-join", "a reader does not join the request under way, but sends its own",
        "tiering/store/store_plan.cpp",
        "            if (blocks != 0) plan.joins.push_back({flight, blocks});\n            missing &= ~blocks;\n",
        "            (void)blocks;\n",
        "StoreModelTest.*"),
    Mutation(
        "entry-checksum", "the checksum test of what is read from an extent",
        "tiering/nvme/nvme_device.cpp",
        "!= location.sums[unit]) {",
        "!= location.sums[unit] && location.object_size == 0) {",
        "NvmeModelTest.*"),
    Mutation(
        "scan-stops-at-damage", "recovery: nothing behind a damaged chunk is looked for",
        "backends/extent/scan.cpp",
        "            scan.intact = false;\n            searching = true;\n",
        "            scan.intact = false;\n            break;\n",
        "ExtentModelTest.*"),
    Mutation(
        "readdir-offset", "the offset of readdir: the entry that the kernel has already comes again",
        "tiering/index/rocks_index.cpp",
        "    if (!after.empty()) from += '\\0';\n",
        "",
        "NamesModelTest.*:IndexModelTest.*"),
    Mutation(
        "s3fifo-promotion", "the policy: one use in the small queue is enough for the main one",
        "tiering/policy/s3fifo.hpp",
        "return node.frequency > 1;",
        "return node.frequency > 0;",
        "S3FifoModel.*"),
    Mutation(
        "arena-coalescing", "a free run that is joined with what comes back is left in its list, and given twice",
        "tiering/ram/page_heap.cpp",
        "        remove(page - before);\n",
        "",
        "ArenaModelTest.*"),
    Mutation(
        "ttl", "metadata.ttl: an answer lives twice as long",
        "fs/metadata/node_table.cpp",
        "if (age < 0 || age >= ttl) return std::nullopt;\n    return milliseconds((ttl - age)",
        "if (age < 0 || age >= 2 * ttl) return std::nullopt;\n    return milliseconds((2 * ttl - age)",
        "NamesModelTest.*"),
    Mutation(
        "nvme-limit", "nvme.limit: room is made only when the limit is exceeded already",
        "tiering/nvme/space.cpp",
        "while (core_.catalog.used() + room.bytes + room.spare > core_.limit) {",
        "while (core_.catalog.used() > core_.limit) {",
        "NvmeSpaceTest.*"),
    Mutation(
        "record-before-data", "the order of writes: the L records are committed before the chunk is written",
        "tiering/nvme/packer.cpp",
        "    const DiskFile& file = active_->handle->file;\n",
        "    auto early = core_.index.batch();\n"
        "    for (const ChunkEntry& entry : chunk.table->entries) {\n"
        "        early->put_location(entry.id, Location::of_entry(core_.device_id, active_->number,\n"
        "                                                          *chunk.table, entry).encode());\n"
        "    }\n"
        "    (void)core_.index.commit(std::move(early));\n"
        "    const DiskFile& file = active_->handle->file;\n",
        "NvmeOrder.*"),
    Mutation(
        "moved-unverified", "what moves from an extent that goes is copied although its checksum is wrong",
        "tiering/nvme/survivors.cpp",
        "        if (!verifies(*entry, bytes)) continue;\n",
        "        (void)verifies(*entry, bytes);\n",
        "NvmeSurvivors.*"),
    Mutation(
        "moved-after-record", "the records of what moves name the copies only after the old extent is gone",
        "tiering/nvme/survivors.cpp",
        "    target->flush();  // their",
        "    // their",
        "NvmeSurvivors.*"),
    Mutation(
        "open-file-evicted", "the space of an unlinked extent counts as free while a reader has it open",
        "tiering/nvme/catalog.cpp",
        "victim.extent->debt.owed = victim.bytes;",
        "*used_ -= victim.bytes;",
        "NvmeOrder.*"),
    Mutation(
        "bad-header", "security: what a server or a pack says may become another request",
        "backends/http/transfer.cpp",
        "if (has_control(name) || has_control(value)) return &name;",
        "if (has_control(name)) return &name;",
        "HttpEngine.*"),
    Mutation(
        "region-host", "security: an answer sends requests, and the session's token, to any host",
        "backends/s3/client/verdict.cpp",
        "if (!is_region(judgement.region)) judgement.region.clear();",
        "if (judgement.region.empty()) judgement.region.clear();",
        "S3Verdict.*"),
    Mutation(
        "pack-version", "security: a version out of a pack may hold line ends",
        "backends/pack/block.cpp",
        "return std::string(has_control(version) ? in.spoil() : version);",
        "return std::string(version);",
        "PackIndex*"),
    Mutation(
        "if-match", "the version test: a GET is not pinned to its ETag",
        "backends/s3/client/client.cpp",
        'if (is_strong_etag(operation_.version))\n',
        'if (operation_.version.empty())\n',
        "S3Origin*"),
    Mutation(
        "retry-limit", "the limit of repeats: an answer that stays broken is asked for until the deadline",
        "backends/s3/client/client.cpp",
        "broken_replies_ >= kMostBrokenReplies) {",
        "(broken_replies_ >= kMostBrokenReplies && !good_reply)) {",
        "S3OriginFailure.ARangeThatStaysWrongFailsBeforeTheDeadline"),
    Mutation(
        "stale-cache-fill", "the scope of a lock: what was read before a change is cached after it",
        "config/base/sharded_lru.hpp",
        "if (shard.generation == generation) insert(",
        "if (shard.generation >= generation) insert(",
        "NamesOrder.*"),
    Mutation(
        "directory-version", "the version test: a file that changed at the source is read on",
        "backends/dir/directory_origin.cpp",
        "    const bool is_other = !request.version.empty() && now.attributes.version != unmarked(request.version);\n",
        "    const bool is_other = now.attributes.size + 1 == 0;\n",
        "DirectoryOriginTest.*"),
    Mutation(
        "node-reservation", "node ids are reserved only in memory, so that a kill hands them out again",
        "tiering/index/rocks_index.cpp",
        "        batch.Put(slice(kNextNodeKey), encode_next_node(end));\n",
        "        batch.Put(slice(kNextNodeKey), encode_next_node(kFirstNode));\n",
        "IndexModelTest.*"),
    Mutation(
        "arena-bound", "a bound: what is free behind the last page of the arena is looked at",
        "tiering/ram/page_heap.cpp",
        "if (page + count < pages_ && free_[page + count] != 0) {",
        "if (page + count <= pages_ && free_[page + count] != 0) {",
        "Arena*:PageHeap*"),
    Mutation(
        "hold-while-waiting", "a limit: a read that waits for memory holds some, so that two may wait for each other",
        "tiering/store/store_plan.cpp",
        "        operation->pieces.clear();  // hold nothing while waiting\n",
        "",
        "StoreModelTest.*:StoreMemory.*"),
    Mutation(
        "erased-place-remembered", "the remembered place of an object that is erased is kept, and its bytes are still served",
        "tiering/nvme/nvme_core.cpp",
        "    locations.forget(id);  // after the index, where a reader may just have found it\n",
        "",
        "NvmeModelTest.*:NvmeSpaceTest.*:NvmeDamageTest.*:NvmeTierTest.*"),
    Mutation(
        "nfs-verifier", "a write verifier that has changed, which says that a server may have lost writes, is not seen",
        "backends/nfs/unstable_writes.cpp",
        "        return piece->verifier != reply.verifier;\n",
        "        return piece->verifier.size() != reply.verifier.size();\n",
        mount="test_server_that_forgets_what_was_not_committed"),
    Mutation(
        "nfs-hidden-name", "an open file of an NFS server that is replaced keeps no name",
        "backends/nfs/posix_export_names.cpp",
        "        auto kept = keep_if_open(target, new_name, *replaced, true);\n",
        "        Result<bool> kept = true;\n",
        mount="test_hidden_names_go_with_the_last_close"),
    Mutation(
        "passthrough-credentials", "the kernel writes files of a directory with the right to keep set-user-ID bits",
        "fs/readwrite/live_passthrough.cpp",
        "        const StandingScope acting(now.st_gid, is_local_file_system(place.f_type));\n",
        "",
        "LivePassthroughTest.*", "test_blocks_reserved_for_root_are_not_everybodys"),
    Mutation(
        "mapping-outlives", "a mapping that is still written through is forgotten with its descriptor",
        "fs/readwrite/live_passthrough.cpp",
        "    if (!file || !file->valid() || !is_written_by_nobody(file->get())) return true;\n",
        "    if (!file || !file->valid()) return true;\n",
        "LivePassthroughTest.AMappingOutlivesItsDescriptor", "test_mapping_outlives_its_descriptor"),
    Mutation(
        "birth-of-old-bytes", "an object put again bears the mark of the file that it was before it was replaced",
        "backends/s3/readwrite/births.cpp",
        "    if (entry.version != hash) entry = {hash, next_locked()};\n",
        "    if (entry.version != hash) entry = {hash, hash};\n",
        "BirthsTest.*"),
    Mutation(
        "node-is-its-name", "another host's object in the place of a bucket's file is taken for that file",
        "backends/s3/readwrite/posix_bucket.cpp",
        "    return known == now || !tells_version(known) || !tells_version(now);\n",
        "    return known == now || tells_version(known) || !tells_version(now);\n",
        mount="test_open_file_is_one_version"),
    Mutation(
        "renewed-after-a-look", "a file that somebody has read from becomes another version under him",
        "fs/readwrite/live_files.cpp",
        "    if (content.is_seen || content.writers != 0) return",
        "    if (content.writers != 0) return",
        mount="test_open_file_is_one_version"),
    Mutation(
        "link-replaces", "link(2) on a bucket replaces what another host has put there",
        "backends/s3/readwrite/bucket_names.cpp",
        "    condition.only_if_absent = true;\n    auto made = draft.publish(to, condition);\n",
        "    auto made = draft.publish(to, condition);\n",
        mount="test_commits_of_two_hosts_are_all_there"),
    Mutation(
        "control-characters-printed", "control characters of names reach the terminal",
        "fs/cli/say.cpp",
        "    return put(to, log::escaped(line) + \"\\n\");\n",
        "    return put(to, std::string(line) + \"\\n\");\n",
        mount="test_no_command_passes_control_sequences_on"),
    Mutation(
        "link-to-mount-point", "a link that appears in the path of a mount point is followed",
        "fs/daemon/mount_place.cpp",
        "    how.resolve = RESOLVE_NO_SYMLINKS;\n",
        "",
        mount="test_mount_point_that_becomes_a_link"),
    Mutation(
        "shared-folder-of-others", "a folder in /tmp that somebody else made, or a link there, is used",
        "fs/daemon/cache_directory.cpp",
        "    if (path.parent_path() == kShared) return make_private_folder(path);\n",
        "",
        "CacheDirectory.*"),
    Mutation(
        "trees-without-bound", "an XML reply may have as many tags as it pleases",
        "backends/s3/client/xml_tree.cpp",
        "        problem_ = \"more tags than any page has\";\n        return;\n",
        "",
        "S3Xml.*"),
    Mutation(
        "stale-for-ever-without-ttl", "metadata.ttl=0s: names outlast an origin that does not answer",
        "fs/metadata/node_table.cpp",
        "(serves_stale_ && ttl_.count() > 0)",
        "serves_stale_",
        "OutageNames.*"),
    Mutation(
        "waits-twice", "a read that failed at origin.deadline is asked of the origin again at once",
        "tiering/store/store_fetch.cpp",
        "                shard.failures.add(flight->key, flight->blocks, result.error(), now);\n",
        "                (void)now;\n",
        "Store.*"),
    Mutation(
        "link-of-a-user", "root's tierfs-stage follows a user's link to a folder of root",
        "fs/stage/copy/held_folder.cpp",
        "        if (status.st_uid == step.owner) return {};\n",
        "        if (status.st_uid == step.owner || status.st_uid == 0) return {};\n",
        "HeldFolder.*"),
    Mutation(
        "book-with-two-names", "a book of tierfs-stage that is another file's second name is written to",
        "fs/stage/copy/book_folder.cpp",
        "    if (status.st_nlink > 1 && (flags & O_ACCMODE) != O_RDONLY)\n"
        "        return refuse(EMLINK, \"it is a file that has another name too\");\n",
        "",
        "BookFolder.*"),
    Mutation(
        "capabilities-kept", "the daemon of root's mount keeps all that root may",
        "fs/daemon/confinement.cpp",
        "    limit(sets, kept, true);\n",
        "    limit(sets, ~CapabilitySet{0}, true);\n    (void)kept;\n",
        mount="test_mount_of_a_bucket"),
    Mutation(
        "calls-let-through", "the filter refuses no system call",
        "fs/daemon/confinement.cpp",
        "::seccomp_rule_add(filter.get(), SCMP_ACT_ERRNO(EPERM), call, 0)",
        "::seccomp_rule_add(filter.get(), SCMP_ACT_LOG, call, 0)",
        "Confinement.*"),
]
