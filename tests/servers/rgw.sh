#!/bin/bash
# Ceph's S3 gateway on loopback, a real S3 server for tests: one monitor, one OSD, one radosgw, no manager, no cephx.
#   rgw.sh start FOLDER PORT    uses PORT, PORT+1 and PORT+10 to PORT+40 of 127.0.0.1; prints "ready" when it answers
#   rgw.sh stop FOLDER
# Environment: ACCESS_KEY, SECRET_KEY of the one user; SIZE_GB (12), sparse.
set -u
command=${1:?start or stop}; folder=${2:?a folder}; port=${3:-7480}
access_key=${ACCESS_KEY:-tierfskey}; secret_key=${SECRET_KEY:-tierfssecret}; size=$((${SIZE_GB:-12} << 30))

# fail TEXT FILES...: the ends of these below log/ say why
fail() {
    echo "rgw.sh: $1" >&2
    shift
    for file in "$@"; do tail -n 20 "$folder/log/$file" >&2; done
    exit 1
}
ceph_tool() { timeout 30 ceph -c "$folder/ceph.conf" --connect-timeout 10 "$@" </dev/null; }
lives() { grep -qs '^State:.[^ZX]' "/proc/$1"/task/*/status; }  # until its last thread has ended
running() { [ -s "$folder/$1.pid" ] && lives "$(cat "$folder/$1.pid")"; }

# launch NAME PROGRAM ARGUMENTS...: in the background, its process id in NAME.pid
launch() {
    local name=$1
    shift
    running "$name" && return 0
    # From /, beneath which the ceph-osd of Debian 13 looks for its classes by a relative path.
    (cd / && exec "$@" -c "$folder/ceph.conf" -f) </dev/null >"$folder/log/$name.out" 2>&1 &
    echo $! >"$folder/$name.pid"
}

# wait_for SECONDS NAME COMMAND...: until the command succeeds; not longer than what was launched as NAME runs
wait_for() {
    local end=$((SECONDS + $1)) name=$2
    shift 2
    until "$@" >/dev/null 2>&1; do
        { [ "$SECONDS" -lt "$end" ] && running "$name"; } || return 1
        sleep 0.2
    done
}

write_configuration() {
    # Not obvious, and each costs hours: v2 messages only work without cephx when the client mode is crc; beast needs
    # tcp_nodelay or each answer waits for a delayed ACK; one replica must be allowed explicitly. Garbage is collected
    # after a minute, not after two hours: tests that write for hours would fill the disk.
    cat >"$folder/ceph.conf" <<CONF
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon_host = v2:127.0.0.1:$((port + 1))
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
auth_supported = none
run_dir = $folder/run
admin_socket = $folder/run/\$name.\$pid.asok
crash_dir = $folder/run
log_file = $folder/log/\$name.log
log_to_stderr = false
err_to_stderr = false
debug_ms = 0/0
ms_bind_ipv4 = true
ms_bind_ipv6 = false
ms_bind_port_min = $((port + 10))
ms_bind_port_max = $((port + 40))
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
mon_max_pg_per_osd = 1000
setuser_match_path = $folder
[mon]
mon_data = $folder/mon
mon_data_avail_crit = 1
mon_data_avail_warn = 2
mon_cluster_log_file = $folder/log/cluster.log
auth_allow_insecure_global_id_reclaim = false
[osd]
osd_data = $folder/osd
osd_objectstore = bluestore
osd_memory_target = 1000000000
bluestore_block_size = $size
bluestore_fsck_on_mount = false
osd_max_object_name_len = 2048
osd_check_max_object_name_len_on_startup = false
[client.rgw]
rgw_data = $folder/run
ms_mon_client_mode = crc
rgw_frontends = beast endpoint=127.0.0.1:$port tcp_nodelay=1
rgw_thread_pool_size = 64
rgw_enable_usage_log = false
rgw_enable_ops_log = false
rgw_override_bucket_index_max_shards = 4
rgw_dns_name = localhost
rgw_gc_obj_min_wait = 60
rgw_gc_processor_period = 60
rgw_gc_processor_max_time = 60
rgw_crypt_require_ssl = false
debug_rgw = 0/0
CONF
}

make_monitor() {
    local fsid
    fsid=$(awk '/^fsid/ {print $3}' "$folder/ceph.conf")
    monmaptool --create --clobber --fsid "$fsid" --addv a "[v2:127.0.0.1:$((port + 1))]" "$folder/monmap" >/dev/null || fail "monmaptool failed"
    ceph-authtool --create-keyring "$folder/mon.keyring" --gen-key -n mon. --cap mon 'allow *' >/dev/null || fail "ceph-authtool failed"
    ceph-mon -c "$folder/ceph.conf" --mkfs -i a --monmap "$folder/monmap" --keyring "$folder/mon.keyring" || fail "ceph-mon --mkfs failed"
}

make_osd() {
    local uuid
    uuid=$(cat /proc/sys/kernel/random/uuid)
    ceph_tool osd new "$uuid" 0 >/dev/null || fail "'ceph osd new' failed"
    ceph-osd -c "$folder/ceph.conf" -i 0 --mkfs --osd-uuid "$uuid" </dev/null >"$folder/log/osd.mkfs" 2>&1 || fail "ceph-osd --mkfs failed" osd.mkfs
    touch "$folder/osd/made"
}

make_user() {
    timeout 120 radosgw-admin -c "$folder/ceph.conf" -n client.rgw user create --uid=tierfs --display-name=tierfs \
        --access-key="$access_key" --secret-key="$secret_key" </dev/null >"$folder/user.json.part" 2>"$folder/log/admin.err" ||
        fail "radosgw-admin could not create the user" admin.err
    mv "$folder/user.json.part" "$folder/user.json"
}

osd_is_up() { ceph_tool osd stat | grep -q '1 up'; }

start() {
    mkdir -p "$folder"/{run,log,mon,osd}; folder=$(cd "$folder" && pwd)
    if [ ! -f "$folder/ceph.conf" ]; then write_configuration && make_monitor; fi
    launch mon ceph-mon -i a
    wait_for 60 mon ceph_tool mon stat || fail "the monitor does not answer" mon.out mon.a.log
    [ -f "$folder/osd/made" ] || make_osd
    launch osd ceph-osd -i 0
    wait_for 90 osd osd_is_up || fail "the OSD does not come up" osd.out osd.0.log
    [ -f "$folder/user.json" ] || make_user
    launch rgw radosgw -n client.rgw
    wait_for 90 rgw curl -sf --noproxy '*' -m 5 -o /dev/null "http://127.0.0.1:$port/" ||
        fail "radosgw does not answer on port $port" rgw.out client.rgw.log
    echo "ready http://127.0.0.1:$port"
}

stop() {
    local name pid
    for name in rgw osd mon; do
        running "$name" || continue
        pid=$(cat "$folder/$name.pid")
        kill "$pid"
        for _ in $(seq 150); do lives "$pid" || break; sleep 0.1; done
        kill -9 "$pid" 2>/dev/null
        for _ in $(seq 300); do lives "$pid" || break; sleep 0.1; done
        rm -f "$folder/$name.pid"
    done
}

case $command in
start) start ;;
stop) stop ;;
*) echo "usage: rgw.sh start|stop FOLDER [PORT]" >&2; exit 2 ;;
esac
