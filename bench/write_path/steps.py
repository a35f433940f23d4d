"""What is measured: a checkpoint into a bucket, into the journal of one, and into a directory."""

from lib.report import at_least, figure


def step_bucket(bench, deadline):
    """The clock stops when a HEAD at the server shows the object."""
    ours, s3fs, multipart = bench.in_turns(deadline, bench.through_tierfs, bench.through_s3fs, bench.by_multipart)
    return [at_least("bucket", "a checkpoint written, synced and closed", ours, "MB/s", s3fs, "s3fs", 1),
            at_least("bucket", "a checkpoint written, synced and closed", ours, "MB/s", multipart, "boto3", 0.9)]


def step_back(bench, deadline):
    """The clock stops when the last of eight ranks has renamed its file, whatever the bucket has by then."""
    ours, native = bench.in_turns(deadline, bench.ranks_through_journal, bench.ranks_onto_xfs)
    return [at_least("back", "8 ranks write, sync and rename, writes=back", ours, "MB/s", native, "XFS", 0.9),
            figure("back", "until the bucket has it", bench.uploaded, "MB/s")]


def step_far(bench, deadline):
    """The same into a bucket that is far away, and a training that goes on beside its uploads."""
    ours, native = bench.in_turns(deadline, bench.ranks_far_away, bench.ranks_onto_xfs)
    count = len(list(bench.samples.rglob("*.bin"))) or 1
    beside, alone = ([count * each for each in some] for some in (bench.epochs_beside, bench.epochs_alone))
    return [at_least("far", "8 ranks write, sync and rename, writes=back", ours, "MB/s", native, "XFS", 0.9),
            figure("far", "until the bucket has it", bench.far_uploaded, "MB/s"),
            at_least("far", "an epoch while it is uploaded", beside, "files/s", alone, "alone", 0.9)]


def step_directory(bench, deadline):
    ours, native = bench.in_turns(deadline, bench.through_directory, bench.onto_xfs)
    return [at_least("directory", "a checkpoint written, synced and closed", ours, "MB/s", native, "XFS", 0.8)]


STEPS = {"bucket": step_bucket, "back": step_back, "far": step_far, "directory": step_directory}
