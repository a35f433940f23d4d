"""Where the tree does not keep a rule yet. These lists may only become shorter: an entry that nothing needs any more is a
violation itself, and so is a new file that would need one."""

# Includes against the order of iobench's folders: data, run, then suites and report. run's results are made of what suites
# declare (Metric, SampleOptions: bench/iobench/suites/suites.hpp); in a header of their own below run they would go.
CIRCULAR = {
    ("bench/iobench/data/command_gen.cpp", "bench/iobench/run/progress.hpp"),
    ("bench/iobench/data/dataset.cpp", "bench/iobench/run/progress.hpp"),
    ("bench/iobench/run/command_run.cpp", "bench/iobench/suites/dataset_rule.hpp"),
    ("bench/iobench/run/command_run.cpp", "bench/iobench/suites/suites.hpp"),
    ("bench/iobench/run/command_run.cpp", "bench/iobench/suites/trainer_options.hpp"),
    ("bench/iobench/run/result_file.hpp", "bench/iobench/suites/suites.hpp"),
    ("bench/iobench/run/run_apart.hpp", "bench/iobench/suites/suites.hpp"),
    ("bench/iobench/run/runner.hpp", "bench/iobench/suites/suites.hpp"),
    ("bench/iobench/run/table.cpp", "bench/iobench/report/comparison.hpp"),
    ("bench/iobench/run/table.cpp", "bench/iobench/report/text.hpp"),
    ("bench/iobench/run/targets.hpp", "bench/iobench/suites/suites.hpp"),
}

# Files of more lines than files.MOST: tests, each of one subject.
LONG = {
    "tests/mount/write/test_locks.py",
    "tests/mount/write/test_write.py",
    "tests/mount/write/test_write_passthrough.py",
    "tests/mount/write/test_write_s3.py",
    "tests/unit/fs/metadata/lookup_test.cpp",
    "tests/unit/fs/pack/publish_test.cpp",
    "tests/unit/tiering/index/index_test.cpp",
}

# (file, kind) of heavy headers outside of the folders that headers.HEAVY names, and of headers with all of JSON.
HEAVY = {
    ("fs/daemon/unmount.cpp", "fuse3/"),  # mounts through libfuse before there is a session
    ("fs/readonly/operations.hpp", "fuse3/"),  # fuse_lowlevel_ops
    ("fs/readwrite/live_operations.hpp", "fuse3/"),  # fuse_lowlevel_ops
    ("bench/iobench/report/comparison.hpp", "nlohmann/json.hpp"),
    ("bench/iobench/run/host.hpp", "nlohmann/json.hpp"),
    ("bench/iobench/run/result_file.hpp", "nlohmann/json.hpp"),
    ("bench/iobench/suites/suites.hpp", "nlohmann/json.hpp"),
    ("bench/iobench/suites/trainer_options.hpp", "nlohmann/json.hpp"),
    ("config/base/json_text.hpp", "nlohmann/json.hpp"),
}
