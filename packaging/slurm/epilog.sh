#!/bin/bash
# The other half of prolog.sh (slurm.conf: Epilog=…/epilog.sh): lets go of what the job had pinned, saves checkpoints, and
# makes room. It runs as root on each node, and its status must be 0, or Slurm drains the node.
#   /etc/tierfs/checkpoints/PARTITION   /nvme0/checkpoints  s3://bucket/checkpoints
# saves what a job has left in /nvme0/checkpoints/JOBID to s3://bucket/checkpoints/JOBID and removes it when all of it is
# there, verified. What could not be saved stays.
set -u

DATASETS=${STAGE_DATASETS:-/etc/tierfs/datasets}
CHECKPOINTS=${STAGE_CHECKPOINTS:-/etc/tierfs/checkpoints}
STATE=${STAGE_STATE:-/run/tierfs-stage}
LIMIT=${STAGE_LIMIT:-3000}

say() { logger -t tierfs-stage -p "daemon.$1" -- "job ${SLURM_JOB_ID:-?}: $2"; }

save() { # FOLDER DEST
    if said=$(timeout --kill-after=30 "$LIMIT" tierfs-stage out "$1" "$2" </dev/null 2>&1); then
        rm -rf --one-file-system -- "$1"
        say info "$1 is saved to $2"
    else
        say err "$1 could not be saved to $2 and stays: $(printf %s "$said" | tail -n 1)"
    fi
}

list="$CHECKPOINTS/${SLURM_JOB_PARTITION:-default}"
if [ -r "$list" ] && [ -n "${SLURM_JOB_ID:-}" ]; then
    while read -r folder dest rest || [ -n "${folder:-}" ]; do
        case $folder in '' | '#'*) continue ;; esac
        if [ -z "$rest" ] && [ -n "$dest" ] && [ -d "$folder/$SLURM_JOB_ID" ] && [ ! -L "$folder/$SLURM_JOB_ID" ]; then
            save "$folder/$SLURM_JOB_ID" "${dest%/}/$SLURM_JOB_ID"
        fi
    done <"$list"
fi

list="$DATASETS/${SLURM_JOB_PARTITION:-default}"
if [ -r "$list" ]; then
    while read -r source dest rest || [ -n "${source:-}" ]; do
        case $source in '' | '#'*) continue ;; esac
        if [ -z "$dest" ] || [ -n "$rest" ]; then continue; fi
        users="$STATE/jobs/$(printf %s "$dest" | sha256sum | cut -c 1-16)"
        rm -f -- "$users/${SLURM_JOB_ID:-0}"
        if rmdir "$users" 2>/dev/null; then # nobody uses it any more
            tierfs-stage unpin "$dest" </dev/null >/dev/null 2>&1 || say warning "$dest could not be unpinned"
        fi
    done <"$list"
fi
exit 0
