// readlink and extended attributes.
#include <string>
#include <string_view>

#include "fs/readonly/operations.hpp"
#include "fs/session/request.hpp"

namespace tierfs {

namespace {

constexpr std::string_view kOwnPrefix = "user.tierfs.", kUserPrefix = "user.";
constexpr std::string_view kAccessList = "system.posix_acl_access", kDefaultList = "system.posix_acl_default";

void read_link(fuse_req_t raw, fuse_ino_t node) {
    auto& operations = Session::user_of<Operations>(raw);
    auto request = std::make_shared<Request>(raw);
    operations.names().read_link(node, [request, &operations, node](Result<std::string> target) {
        if (!target) return answer_error(operations, *request, "READLINK", node, "", target.error());
        request->link(target->c_str());
    });
}

Result<std::string> attribute_value(Operations& operations, fuse_ino_t node, std::string_view name) {
    const auto what = name.substr(kOwnPrefix.size());
    if (what != "tier" && what != "version" && what != "packed") return fail(ENODATA, "no such attribute");
    const auto object = operations.names().object(node);
    if (!object) {
        return fail(object.error().code == ESTALE ? ESTALE : ENODATA, object.error().message);
    }
    if (what == "tier") return operations.store().describe_location(**object);
    if (what == "version") return (*object)->version;
    return std::string((*object)->size <= operations.pack_max_object() ? "true" : "false");
}

void reply_value(Request& request, std::string_view value, std::size_t size) {
    if (size == 0) return request.xattr_size(value.size());
    if (size < value.size()) return request.error(ERANGE);
    request.bytes(value);
}

bool is_shown(const Operations& operations, std::string_view name) {
    if (name.starts_with(kUserPrefix)) return !name.starts_with(kOwnPrefix);
    return operations.checks_acls() && (name == kAccessList || name == kDefaultList);
}

using RequestPtr = std::shared_ptr<Request>;

std::function<void(const Result<std::string>&)> answer_with_value(Operations& operations,
                                                                  const RequestPtr& request, NodeId node,
                                                                  std::size_t size) {
    return [=, &operations](const Result<std::string>& value) {
        if (value) return reply_value(*request, *value, size);
        const int code = value.error().code;
        if (code == ENODATA || code == EOPNOTSUPP) return request->error(ENODATA);
        answer_error(operations, *request, "GETXATTR", node, "", value.error());
    };
}

void get_xattr(fuse_req_t raw, fuse_ino_t node, const char* text, size_t size) {
    auto& operations = Session::user_of<Operations>(raw);
    const auto request =
        std::make_shared<Request>(raw);  // from here on it may be answered, and freed, at any time
    const std::string name = text;
    if (name.starts_with(kOwnPrefix)) {
        const auto value = attribute_value(operations, node, name);
        return value ? reply_value(*request, *value, size) : request->error(value.error().code);
    }
    if (!is_shown(operations, name)) return request->error(ENODATA);
    auto answer = answer_with_value(operations, request, node, size);
    // The kernel asks for it of each file that somebody else than its owner opens: few have one.
    if (name == kAccessList) return operations.names().access_list(node, std::move(answer));
    operations.names().xattr(node, name, std::move(answer));
}

// Ours are answered but not listed, so that `cp -a` and `tar --xattrs` do not carry them away.
void list_xattr(fuse_req_t raw, fuse_ino_t node, size_t size) {
    auto& operations = Session::user_of<Operations>(raw);
    const auto request = std::make_shared<Request>(raw);
    operations.names().xattr_names(node, [=, &operations](const Result<std::vector<std::string>>& found) {
        if (!found && found.error().code != EOPNOTSUPP)
            return answer_error(operations, *request, "LISTXATTR", node, "", found.error());
        std::string names;
        if (found)
            for (const auto& name : *found)
                if (is_shown(operations, name)) names.append(name).append(1, '\0');
        reply_value(*request, names, size);
    });
}

}  // namespace

void add_link_operations(fuse_lowlevel_ops& table) {
    table.readlink = read_link;
    table.getxattr = get_xattr;
    table.listxattr = list_xattr;
}

}  // namespace tierfs
