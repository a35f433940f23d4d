#!/bin/bash
# An example of a Slurm Prolog that stages datasets onto the node before a job starts (slurm.conf: Prolog=…/prolog.sh).
# It runs as root on each node. Which datasets a partition's jobs read stands in a file of that name, a line each:
#   /etc/tierfs/datasets/PARTITION      s3://bucket/imagenet  /nvme0/imagenet
# Staging what is there already takes as long as looking, and what an earlier job was killed in goes on where it was.
# A dataset stays pinned while a job is on the node; epilog.sh lets go.
set -u

DATASETS=${STAGE_DATASETS:-/etc/tierfs/datasets}
STATE=${STAGE_STATE:-/run/tierfs-stage}
LIMIT=${STAGE_LIMIT:-3000} # seconds for each; below Slurm's PrologEpilogTimeout and BatchStartTimeout
STRICT=${STAGE_STRICT:-no} # yes: a dataset that cannot be staged keeps the job from starting, and Slurm drains the node

say() { logger -t tierfs-stage -p "daemon.$1" -- "job ${SLURM_JOB_ID:-?}: $2"; }

list="$DATASETS/${SLURM_JOB_PARTITION:-default}"
[ -r "$list" ] || exit 0
umask 022
mkdir -p "$STATE/jobs" || exit 0

failed=0
while read -r source dest rest || [ -n "${source:-}" ]; do
    case $source in '' | '#'*) continue ;; esac
    if [ -z "$dest" ] || [ -n "$rest" ]; then
        say err "$list: a line is not SOURCE DEST: $source"
        failed=1
        continue
    fi
    # Jobs that use it, so that the end of one does not unpin it for the others.
    users="$STATE/jobs/$(printf %s "$dest" | sha256sum | cut -c 1-16)"
    mkdir -p "$users" && : >"$users/${SLURM_JOB_ID:-0}"
    if said=$(timeout --kill-after=30 "$LIMIT" tierfs-stage in "$source" "$dest" </dev/null 2>&1); then
        tierfs-stage pin "$dest" </dev/null >/dev/null 2>&1 || say warning "$dest could not be pinned"
        say info "$dest holds $source"
    else
        say err "$source could not be staged to $dest: $(printf %s "$said" | tail -n 1)"
        failed=1
    fi
done <"$list"

if [ "$failed" = 1 ] && [ "$STRICT" = yes ]; then exit 1; fi
exit 0
