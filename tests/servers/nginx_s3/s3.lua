-- The part of S3 that nginx has not: listings, buckets, error documents; and what tests need: counters, delays, faults.
-- Objects are files under $objects/BUCKET/KEY. Listings come from a walk of the tree that each worker keeps until a
-- PUT, a DELETE or /_ctl?rescan=1 makes it stale.
local ffi = require "ffi"
local bit = require "bit"
ffi.cdef [[
typedef struct __dirstream DIR;
struct dirent { uint64_t d_ino; int64_t d_off; uint16_t d_reclen; uint8_t d_type; char d_name[256]; };
DIR *opendir(const char *);
struct dirent *readdir(DIR *);
int closedir(DIR *);
struct when { long seconds; long nanoseconds; };
/* struct stat of x86-64 Linux */
struct stat { uint64_t device, inode, links; uint32_t mode, uid, gid, padding; uint64_t rdev; int64_t size, blksize,
    blocks; struct when atime, mtime, ctime; uint64_t reserved[3]; };
int stat(const char *, struct stat *);
]]

local M = {}
local control = ngx.shared.control
local settings = { "ttfb_ms", "jitter_ms", "rate_bps", "fail_every", "fail_next", "fail_changes", "tail_every", "tail_ms" }
local counters = { "requests", "get", "head", "list", "put", "delete", "other", "failed", "tailed", "bytes" }
local generation = "generation"
local beyond = "\255\255\255\255"  -- sorts after every key that starts with what stands before it
local stat_buffer = ffi.new("struct stat")
local indexes = {}  -- bucket -> {generation, keys, attributes}

local function stat(path)
    if ffi.C.stat(path, stat_buffer) ~= 0 then return nil end
    local directory = bit.band(stat_buffer.mode, 0xF000) == 0x4000
    return { directory = directory, size = tonumber(stat_buffer.size), mtime = tonumber(stat_buffer.mtime.seconds) }
end

local function names_in(path)
    local names, handle = {}, ffi.C.opendir(path)
    if handle == nil then return names end
    local entry = ffi.C.readdir(handle)
    while entry ~= nil do
        local name = ffi.string(entry.d_name)
        if name ~= "." and name ~= ".." then names[#names + 1] = name end
        entry = ffi.C.readdir(handle)
    end
    ffi.C.closedir(handle)
    return names
end

local function walk(path, prefix, keys, attributes)
    for _, name in ipairs(names_in(path)) do
        local found = stat(path .. "/" .. name)
        if found and found.directory then
            walk(path .. "/" .. name, prefix .. name .. "/", keys, attributes)
        elseif found then
            keys[#keys + 1] = prefix .. name
            attributes[prefix .. name] = found
        end
    end
end

local function index_of(bucket)
    local now = control:get(generation) or 0
    local index = indexes[bucket]
    if index and index.generation == now then return index end
    local root = ngx.var.objects .. "/" .. bucket
    local found = stat(root)
    if not (found and found.directory) then return nil end
    index = { generation = now, keys = {}, attributes = {} }
    walk(root, "", index.keys, index.attributes)
    table.sort(index.keys)  -- by bytes, as S3 does
    indexes[bucket] = index
    return index
end

-- The first position whose key is not before `key`.
local function position(keys, key)
    local low, high = 1, #keys + 1
    while low < high do
        local middle = bit.rshift(low + high, 1)
        if keys[middle] < key then low = middle + 1 else high = middle end
    end
    return low
end

local entities = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["\r"] = "&#13;" }
local function as_xml(text) return (text:gsub('[&<>"\r]', entities)) end
local function as_url(text)
    return (text:gsub("[^%w%-%._~/]", function(c) return string.format("%%%02X", c:byte()) end))
end

local function element(name, text) return "<" .. name .. ">" .. text .. "</" .. name .. ">" end

local function etag(found) return string.format('"%x-%x"', found.mtime, found.size) end

function M.refuse(status, code)
    ngx.status = status
    ngx.header["Content-Type"] = "application/xml"
    ngx.print('<?xml version="1.0" encoding="UTF-8"?>\n',
        element("Error", element("Code", code) .. element("Message", code) .. element("Resource", as_xml(ngx.var.uri))))
    return ngx.exit(ngx.HTTP_OK)
end

local function arguments()
    local all = ngx.req.get_uri_args(100)
    return function(name)
        local value = all[name]
        if type(value) == "table" then value = value[1] end
        return value == true and "" or value
    end
end

local function starting_point(keys, prefix, delimiter, after)
    local start = position(keys, prefix)
    if not after or after == "" then return start end
    -- A page that ended in a common prefix goes on after everything below it.
    local group = delimiter ~= "" and #after > #prefix and after:sub(-#delimiter) == delimiter
    return math.max(start, position(keys, after .. (group and beyond or "\0")))
end

-- One page: contents and common prefixes in key order, the last of them, and whether there is more.
local function page(index, prefix, delimiter, after, limit)
    local contents, groups, count, last = {}, {}, 0, nil
    local i = starting_point(index.keys, prefix, delimiter, after)
    while i <= #index.keys and index.keys[i]:sub(1, #prefix) == prefix do
        if count == limit then return contents, groups, last, true end
        local key = index.keys[i]
        local cut = delimiter ~= "" and key:find(delimiter, #prefix + 1, true)
        if cut then
            last = key:sub(1, cut + #delimiter - 1)
            groups[#groups + 1] = last
            i = position(index.keys, last .. beyond)
        else
            last = key
            contents[#contents + 1] = key
            i = i + 1
        end
        count = count + 1
    end
    return contents, groups, last, false
end

function M.list()
    local argument = arguments()
    local bucket = ngx.var.uri:match("^/([^/]+)")
    local index = index_of(bucket)
    if not index then return M.refuse(404, "NoSuchBucket") end
    local second = argument("list-type") == "2"
    local prefix, delimiter = argument("prefix") or "", argument("delimiter") or ""
    local limit = math.min(tonumber(argument("max-keys") or 1000) or 1000, 1000)
    local after = argument("marker")
    if second then
        local token = argument("continuation-token")
        after = token and ngx.decode_base64(token) or argument("start-after")
    end
    local name_of = argument("encoding-type") == "url" and as_url or as_xml
    local contents, groups, last, more = page(index, prefix, delimiter, after, limit)
    more = more and limit > 0

    local out = { '<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">',
        element("Name", as_xml(bucket)), element("Prefix", name_of(prefix)), element("MaxKeys", limit),
        element("IsTruncated", tostring(more)), element("KeyCount", #contents + #groups) }
    local function add(text) out[#out + 1] = text end
    if delimiter ~= "" then add(element("Delimiter", name_of(delimiter))) end
    if argument("encoding-type") == "url" then add(element("EncodingType", "url")) end
    if more and second then add(element("NextContinuationToken", ngx.encode_base64(last))) end
    if more and not second then add(element("NextMarker", name_of(last))) end
    for _, key in ipairs(contents) do
        local found = index.attributes[key]
        add(element("Contents", element("Key", name_of(key)) ..
            element("LastModified", os.date("!%Y-%m-%dT%H:%M:%S.000Z", found.mtime)) ..
            element("ETag", as_xml(etag(found))) .. element("Size", string.format("%d", found.size)) ..
            element("StorageClass", "STANDARD")))
    end
    for _, group in ipairs(groups) do add(element("CommonPrefixes", element("Prefix", name_of(group)))) end
    add("</ListBucketResult>")
    ngx.header["Content-Type"] = "application/xml"
    ngx.print(table.concat(out))
end

local changing = { PUT = true, POST = true, DELETE = true }

local function fault_is_due()
    if (control:get("fail_changes") or 0) > 0 and changing[ngx.req.get_method()] then return true end
    local every = control:get("fail_every") or 0
    if every > 0 and (control:get("requests") or 0) % every == 0 then return true end
    if (control:get("fail_next") or 0) > 0 then
        control:incr("fail_next", -1)
        return true
    end
    return false
end

-- A heavy tail: each so-many-th GET of an object is very slow, by count, so that each run is alike.
local function tail_is_due()
    local every = control:get("tail_every") or 0
    if every == 0 or ngx.req.get_method() ~= "GET" or ngx.var.request_uri:match("^/[^/?]*/?%?") then return false end
    if control:incr("tail_count", 1, 0) % every ~= 0 then return false end
    control:incr("tailed", 1, 0)
    return true
end

-- Access phase of every request.
function M.shape()
    control:incr("requests", 1, 0)
    if fault_is_due() then
        control:incr("failed", 1, 0)
        ngx.header["Retry-After"] = "0"
        return M.refuse(503, "SlowDown")
    end
    local wait = (control:get("ttfb_ms") or 0) + math.random() * (control:get("jitter_ms") or 0)
    if tail_is_due() then wait = control:get("tail_ms") or 0 end
    if wait > 0 then ngx.sleep(wait / 1000) end
    local rate = control:get("rate_bps") or 0
    if rate > 0 then ngx.var.limit_rate = rate end
end

-- Log phase of every request: what was asked for, and how much was sent.
function M.count()
    local method, uri = ngx.req.get_method(), ngx.var.request_uri
    if uri:sub(1, 5) == "/_ctl" then return end
    local kind = method:lower()
    if method == "GET" and uri:match("^/[^/?]*/?%?") then kind = "list" end
    if not (method == "GET" or method == "HEAD" or method == "PUT" or method == "DELETE") then kind = "other" end
    control:incr(kind, 1, 0)
    control:incr("bytes", tonumber(ngx.var.body_bytes_sent) or 0, 0)
end

function M.control()
    for name, value in pairs(ngx.req.get_uri_args()) do
        if name == "rescan" then control:incr(generation, 1, 0) else control:set(name, tonumber(value) or 0) end
    end
    for _, group in ipairs { settings, counters } do
        for _, name in ipairs(group) do ngx.say(name, "=", string.format("%d", control:get(name) or 0)) end
    end
end

-- Rewrite phase: objects, buckets and listings are answered in different places.
function M.route()
    local method = ngx.req.get_method()
    local key = ngx.var.uri:match("^/[^/]+/?(.*)$")
    if key == nil then return M.refuse(501, "NotImplemented") end
    if key == "" and method == "GET" then return ngx.exec("@list", ngx.var.args) end
    if key == "" then return ngx.exec("@bucket") end
    if method == "GET" or method == "HEAD" then return ngx.exec("@object") end
    if method == "PUT" and M.is_refused() then return M.refuse(412, "PreconditionFailed") end
end

-- Conditional writes, which nginx's WebDAV does not know.
function M.is_refused()
    local match, none = ngx.var.http_if_match, ngx.var.http_if_none_match
    if not match and not none then return false end
    local found = stat(ngx.var.request_filename)
    if none == "*" then return found ~= nil end
    -- nginx would compare once more, with what was written
    ngx.req.clear_header("If-Match")
    return match ~= nil and (not found or etag(found) ~= match)
end

function M.bucket()
    local found = stat(ngx.var.objects .. "/" .. ngx.var.uri:match("^/([^/]+)"))
    return ngx.exit(found and found.directory and 200 or 404)
end

-- WebDAV's answers to PUT and DELETE, in S3's words.
function M.answer_like_s3()
    local method = ngx.req.get_method()
    if method == "PUT" and (ngx.status == 201 or ngx.status == 204) then
        ngx.status = 200
        ngx.header["Location"] = nil
        ngx.header["Content-Length"] = 0
        local found = stat(ngx.var.request_filename)
        if found then ngx.header["ETag"] = etag(found) end
    elseif method == "DELETE" and ngx.status == 404 then
        ngx.status = 204
        ngx.header["Content-Length"] = nil
    end
    if method == "PUT" or method == "DELETE" then control:incr(generation, 1, 0) end
end

return M
