// readlink and extended attributes.
#include <string>
#include <string_view>

#include "fs/readonly/operations.hpp"
#include "fs/session/request.hpp"

namespace tierfs {

namespace {

void read_link(fuse_req_t raw, fuse_ino_t node) {
    auto& operations = Session::user_of<Operations>(raw);
    auto request = std::make_shared<Request>(raw);
    operations.names().read_link(node, [request, &operations, node](Result<std::string> target) {
        if (!target) return answer_error(operations, *request, "READLINK", node, "", target.error());
        request->link(target->c_str());
    });
}

Result<std::string> attribute_value(Operations& operations, fuse_ino_t node, std::string_view name) {
    constexpr std::string_view kPrefix = "user.tierfs.";
    if (!name.starts_with(kPrefix)) return fail(ENODATA, "no such attribute");
    const auto what = name.substr(kPrefix.size());
    if (what != "tier" && what != "version" && what != "packed") return fail(ENODATA, "no such attribute");
    const auto object = operations.names().object(node);
    if (!object) {
        return fail(object.error().code == ESTALE ? ESTALE : ENODATA, object.error().message);
    }
    if (what == "tier") return operations.store().describe_location(**object);
    if (what == "version") return (*object)->version;
    return std::string((*object)->size <= operations.pack_max_object() ? "true" : "false");
}

void get_xattr(fuse_req_t raw, fuse_ino_t node, const char* name, size_t size) {
    auto& operations = Session::user_of<Operations>(raw);
    Request request(raw);  // from here on it may be answered, and freed, at any time
    const auto value = attribute_value(operations, node, name);
    if (!value) return request.error(value.error().code);
    if (size == 0) return request.xattr_size(value->size());
    if (size < value->size()) return request.error(ERANGE);
    request.bytes(*value);
}

// Ours are answered but not listed, so that `cp -a` and `tar --xattrs` do not carry them away.
void list_xattr(fuse_req_t raw, fuse_ino_t /*node*/, size_t size) {
    Request request(raw);
    if (size == 0) return request.xattr_size(0);
    request.bytes({});
}

}  // namespace

void add_link_operations(fuse_lowlevel_ops& table) {
    table.readlink = read_link;
    table.getxattr = get_xattr;
    table.listxattr = list_xattr;
}

}  // namespace tierfs
