#!/bin/bash
# An S3 look-alike on loopback: nginx serves the files, a little Lua lists them. Quick, countable, shapeable; no
# authentication, ETag is "mtime-size", no key that is a prefix of another one's directory.
#   nginx_s3.sh start FOLDER PORT    objects are FOLDER/data/BUCKET/KEY; prints "ready" when it answers
#   nginx_s3.sh stop FOLDER
# While it runs, GET /_ctl shows settings and counters, GET /_ctl?KEY=VALUE changes them:
#   ttfb_ms, jitter_ms  wait before the first byte        rate_bps     bytes per second of each answer, 0: all
#   fail_every=N        each Nth request gets a 503       fail_next=N  the next N requests get a 503
#   fail_changes=1      each PUT, POST and DELETE gets a 503
#   tail_every=N, tail_ms=T  each Nth GET of an object waits T instead (tailed counts them)
#   rescan=1            forget the listings after files were changed behind its back
# Environment: UPSTREAM=host:port puts the same shaping before a real server on PORT+1; WORKERS (1);
# FILE_CACHE=off looks at each file anew (tests that change objects).
set -u
command=${1:?start or stop}; folder=${2:?a folder}; port=${3:-7700}
here=$(cd "$(dirname "$0")" && pwd)

lives() { grep -qs '^State:.[^ZX]' "/proc/$1"/task/*/status; }  # until its last thread has ended
running() { [ -s "$folder/nginx.pid" ] && lives "$(cat "$folder/nginx.pid")"; }

proxy_block() {
    [ -n "${UPSTREAM:-}" ] || return 0
    cat <<CONF
    upstream real { server $UPSTREAM; keepalive 256; keepalive_requests 10000000; }
    server {
        listen 127.0.0.1:$((port + 1)) backlog=4096;
        location = /_ctl { content_by_lua_block { s3.control() } }
        location / {
            access_by_lua_block { s3.shape() }
            log_by_lua_block { s3.count() }
            proxy_pass http://real;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host \$http_host;  # as signed
            proxy_request_buffering off;
            proxy_buffers 16 64k; proxy_buffer_size 64k; proxy_busy_buffers_size 128k; proxy_max_temp_file_size 0;
            proxy_read_timeout 600s; proxy_send_timeout 600s;
        }
    }
CONF
}

file_cache() {
    if [ "${FILE_CACHE:-on}" = on ]; then
        echo "open_file_cache max=15000 inactive=600s; open_file_cache_valid 5s; open_file_cache_errors off;"
    fi
}

write_configuration() {
    cat >"$folder/nginx.conf" <<CONF
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
user root;
worker_processes ${WORKERS:-1};
pid $folder/nginx.pid;
error_log $folder/error.log warn;
events { worker_connections 8192; }
http {
    access_log off;
    client_body_temp_path $folder/tmp; proxy_temp_path $folder/tmp/p; fastcgi_temp_path $folder/tmp/f;
    uwsgi_temp_path $folder/tmp/u; scgi_temp_path $folder/tmp/s;
    sendfile on; tcp_nopush on; tcp_nodelay on; sendfile_max_chunk 2m;
    keepalive_timeout 300; keepalive_requests 10000000;
    $(file_cache)
    client_max_body_size 0; client_body_buffer_size 256k;
    merge_slashes off;  # "a//b" is a key of its own
    default_type binary/octet-stream;
    lua_package_path "$here/nginx_s3/?.lua;/usr/share/lua/5.1/?.lua;;";
    lua_shared_dict control 1m;
    init_by_lua_block { s3 = require "s3" }
    server {
        listen 127.0.0.1:$port backlog=4096;
        root $folder/data;
        set \$objects $folder/data;
        etag on;
        log_by_lua_block { s3.count() }
        location = /_ctl { content_by_lua_block { s3.control() } }
        location @list   { access_by_lua_block { s3.shape() } content_by_lua_block { s3.list() } }
        location @bucket { access_by_lua_block { s3.shape() } content_by_lua_block { s3.bucket() } }
        location @nokey  { content_by_lua_block { s3.refuse(404, "NoSuchKey") } }
        location @object { access_by_lua_block { s3.shape() } try_files \$uri @nokey; }
        location / {
            rewrite_by_lua_block { s3.route() }
            access_by_lua_block { s3.shape() }
            dav_methods PUT DELETE; create_full_put_path on; dav_access user:rw group:r all:r;
            header_filter_by_lua_block { s3.answer_like_s3() }
        }
    }
$(proxy_block)
}
CONF
}

case $command in
start)
    mkdir -p "$folder/data" "$folder/tmp"; folder=$(cd "$folder" && pwd)
    write_configuration
    running || nginx -p "$folder" -c "$folder/nginx.conf" </dev/null 2>"$folder/start.err" || { cat "$folder/start.err" >&2; exit 1; }
    for _ in $(seq 250); do
        curl -sf --noproxy '*' -m 5 -o /dev/null "http://127.0.0.1:$port/_ctl" && { echo "ready http://127.0.0.1:$port"; exit 0; }
        sleep 0.1
    done
    echo "nginx does not answer on port $port" >&2; tail -n 20 "$folder/start.err" "$folder/error.log" >&2; exit 1 ;;
stop)
    running || exit 0
    pid=$(cat "$folder/nginx.pid")
    kill "$pid"
    for _ in $(seq 250); do lives "$pid" || exit 0; sleep 0.1; done
    echo "nginx $pid does not stop" >&2; exit 1 ;;
*) echo "usage: nginx_s3.sh start|stop FOLDER [PORT]" >&2; exit 2 ;;
esac
