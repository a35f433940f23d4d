#!/bin/bash
# nfs-ganesha (Debian: nfs-ganesha, nfs-ganesha-vfs) serving NFSv3 and v4 on a loopback address, without systemd, dbus,
# kerberos or the machine's rpcbind.
#   ganesha.sh start FOLDER [PORT [ADDRESS]]   exports FOLDER/export; mountd is on PORT + 1; prints "ready" when it answers
#   ganesha.sh stop FOLDER
# Exports: /export (read and write, root stays root), /squashed (root is nobody), /readonly, all of the same folder.
# Environment: PORTMAP=1 also answers as the portmapper on ADDRESS:111 (ADDRESS: any of 127.0.0.0/8; default 127.0.0.1).
#   EXPORT=/dir instead of FOLDER/export; MAX_IO bytes of a READ or WRITE (1048576); DIR_CHUNK=0 keeps no listings.
# ganesha ends when it cannot register with an rpcbind on /run/rpcbind.sock. It gets one of its own, rpcbind_stub.py, in a
# /run of its own (a mount namespace), so that any number of them can run on one machine.
set -u
command=${1:?start or stop}; folder=${2:?a folder}; port=${3:-12049}; address=${4:-127.0.0.1}
here=$(cd "$(dirname "$0")" && pwd)

# Until its last thread has ended, a zombie leader or not: until then what it has locked stays locked.
lives() { grep -qs '^State:.[^ZX]' "/proc/$1"/task/*/status; }
running() { [ -s "$folder/$1.pid" ] && lives "$(cat "$folder/$1.pid")"; }
answers() { (exec 3<>"/dev/tcp/$address/$1") 2>/dev/null; }

stop_one() {
    if running "$1"; then
        local pid; pid=$(cat "$folder/$1.pid")
        kill "$pid"
        for _ in $(seq 80); do lives "$pid" || break; sleep 0.1; done
        kill -9 "$pid" 2>/dev/null
        for _ in $(seq 300); do lives "$pid" || break; sleep 0.1; done
    fi
    rm -f "$folder/$1.pid"
}

what_it_said() {
    echo "$1"
    cat "$folder/ganesha.out"
    tail -n 20 "$folder/ganesha.log"
}

export_block() { # number, name, further lines
    cat <<CONF
EXPORT {
  Export_Id = $1; Path = "${EXPORT:-$folder/export}"; Pseudo = /$2; Tag = $2; $3
  MaxRead = ${MAX_IO:-1048576}; MaxWrite = ${MAX_IO:-1048576}; PrefRead = ${MAX_IO:-1048576}; PrefWrite = ${MAX_IO:-1048576};
  Attr_Expiration_Time = 0;
  FSAL { Name = VFS; }
}
CONF
}

# allow_set_io_flusher_fail: the ganesha of Debian 13 ends where it lacks CAP_SYS_RESOURCE unless it may go on; that of
# Debian 12 warns that it does not know the word.
configuration() {
    cat <<CONF
NFS_CORE_PARAM {
  Protocols = 3, 4; NFS_Port = $port; MNT_Port = $((port + 1)); Bind_addr = $address;
  allow_set_io_flusher_fail = true;
  Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; mount_path_pseudo = true; RPC_Max_Connections = 1024;
}
NFSv4 { Graceless = true; Grace_Period = 5; Lease_Lifetime = 20; RecoveryBackend = fs; RecoveryRoot = "$folder/recov"; }
NFS_KRB5 { Active_krb5 = false; }
EXPORT_DEFAULTS { SecType = sys; Access_Type = RW; Squash = No_Root_Squash; Transports = TCP; Protocols = 3, 4; PrivilegedPort = false; }
LOG { Default_Log_Level = WARN; }
${DIR_CHUNK:+MDCACHE { Dir_Chunk = $DIR_CHUNK; \}}
CONF
    export_block 1 export ""
    export_block 2 squashed "Squash = Root_Squash;"
    export_block 3 readonly "Access_Type = RO;"
}

case $command in
start)
    mkdir -p "$folder"/{export,recov,run/ganesha} && folder=$(cd "$folder" && pwd) || exit 1
    configuration >"$folder/ganesha.conf"
    if ! running rpcbind; then
        portmap=0; [ "${PORTMAP:-0}" = 1 ] && portmap=111
        /usr/bin/python3 "$here/rpcbind_stub.py" "$folder/run/rpcbind.sock" "$address" $portmap >"$folder/rpcbind.log" 2>&1 </dev/null &
        echo $! >"$folder/rpcbind.pid"
        for _ in $(seq 300); do [ -S "$folder/run/rpcbind.sock" ] && break; sleep 0.1; done
        [ -S "$folder/run/rpcbind.sock" ] || { echo "no portmapper"; cat "$folder/rpcbind.log"; stop_one rpcbind; exit 1; }
    fi
    # One process: exec all the way, so that the id is ganesha's.
    running ganesha || {
        unshare --mount --propagation private "$0" serve "$folder" >"$folder/ganesha.out" 2>&1 </dev/null &
        echo $! >"$folder/ganesha.pid"
    }
    for _ in $(seq 1000); do
        running ganesha || { what_it_said "ganesha ended"; exit 1; }
        if answers "$port" && answers "$((port + 1))"; then echo ready; exit 0; fi
        sleep 0.05
    done
    what_it_said "ganesha does not answer"; exit 1 ;;
serve) # within the namespace
    # What others have mounted is not to be held by this copy of it.
    mapfile -t mounts </proc/self/mountinfo
    for line in "${mounts[@]}"; do
        read -r _ _ _ _ place _ <<<"$line"
        case $place in / | /proc* | /sys* | /dev* | /run*) continue ;; esac
        case ${EXPORT:-$folder}/ in "$place"/*) continue ;; esac
        umount -l "$place" 2>/dev/null
    done
    mount --bind "$folder/run" /run &&
        exec ganesha.nfsd -F -f "$folder/ganesha.conf" -L "$folder/ganesha.log" -p "$folder/run/ganesha.pid" ;;
stop)
    stop_one ganesha
    stop_one rpcbind ;;
*) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
