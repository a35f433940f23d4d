#include "backends/pack/changes.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <tuple>

#include "backends/pack/index.hpp"
#include "backends/pack/index_writer.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/json_text.hpp"

namespace tierfs::pack {

namespace {

// A file of changes is an index without extents. A name that is gone stands in it as what no name is: a
// directory that must be restored before it can be read. Where too many differ, the root is gone.
constexpr const char* kAskedOfSource = "?";  // targets of symbolic links are not kept

Entry gone() {
    Entry entry;
    entry.attributes.kind = ObjectKind::directory;
    entry.attributes.archived = true;
    return entry;
}

bool is_gone(const Entry& entry) {
    return entry.attributes.kind == ObjectKind::directory && entry.attributes.archived;
}

/// Directory and name of a key.
std::pair<std::string, std::string> parts(const std::string& key) {
    const auto zero = key.find('\0');
    if (zero == std::string::npos) return {};
    return {key.substr(0, zero), key.substr(zero + 1)};
}

}  // namespace

bool is_same_object(const Attributes& a, const Attributes& b) {
    return a.kind == b.kind && (a.kind == ObjectKind::directory || a.version == b.version);
}

bool is_same(const Attributes& a, const Attributes& b, bool owners) {
    return is_same_object(a, b) && a.size == b.size && a.mtime_ns == b.mtime_ns && a.ctime_ns == b.ctime_ns &&
           a.nlink == b.nlink && a.archived == b.archived &&
           (!owners || (a.mode == b.mode && a.uid == b.uid && a.gid == b.gid));
}

bool operator==(const Changes::Name& a, const Changes::Name& b) {
    return a.now.has_value() == b.now.has_value() && (!a.now || is_same(*a.now, *b.now, true));
}

const Changes::Name* Changes::find(const std::string& path) const {
    static const Name kGone;
    if (names_.empty()) return nullptr;
    for (auto slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
        const auto above = names_.find(key_of_path(std::string_view(path).substr(0, slash)));
        if (above == names_.end()) continue;
        if (!above->second.now || above->second.now->kind != ObjectKind::directory) return &kGone;
    }
    const auto found = names_.find(key_of_path(path));
    return found == names_.end() ? nullptr : &found->second;
}

void Changes::list(const std::string& directory, const std::string& after,
                   const std::function<bool(const std::string&, const Name&)>& each) const {
    for (auto it = names_.upper_bound(key_of(directory, after)); it != names_.end(); ++it) {
        auto [of, name] = parts(it->first);
        if (of != directory || name.empty() || !each(name, it->second)) return;
    }
}

Result<void> Changes::save(const std::string& path) const {
    IndexWriter writer;
    if (too_many) {
        if (auto added = writer.add(gone()); !added) return added;
    }
    for (const auto& [key, name] : names_) {
        if (too_many) break;
        Entry entry = name.now ? Entry() : gone();
        if (name.now) entry.attributes = *name.now;
        std::tie(entry.directory, entry.name) = parts(key);
        if (entry.attributes.kind == ObjectKind::symlink) entry.link = kAskedOfSource;
        if (auto added = writer.add(std::move(entry)); !added) return added;
    }
    const std::string part = path + ".part";
    const FileDescriptor file(::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    if (!file) return fail(system_error(errno, part));
    if (auto written = write_all(file.get(), writer.finish({})); !written)
        return fail(written.error().within(part));
    if (::rename(part.c_str(), path.c_str()) != 0) return fail(system_error(errno, path));
    return {};
}

Result<Changes> Changes::load(const std::string& path) {
    const auto index = PackIndex::open(path);
    if (!index) return fail(index.error());
    Changes changes;
    auto read = (*index)->for_each([&](const Entry& entry) {
        if (entry.is_root() && is_gone(entry)) {
            changes.too_many = true;
            return false;
        }
        Name name;
        if (!is_gone(entry)) name.now = entry.attributes;
        changes.names_[key_of(entry)] = std::move(name);
        return true;
    });
    if (!read) return fail(read.error());
    return changes;
}

}  // namespace tierfs::pack
