"""The suites of a run, in order: what is quick and what fails most first."""

from faults import Faults, Matrix
from fuzz import Fuzz, names
from kinds import Alone, Bench, Build, Format, House, Joined, Mounts, Mutations, Package, Pages, Quick, Sample, Stage, Unit
from tidy import Tidy

ASAN = {"ASAN_OPTIONS": "detect_stack_use_after_return=1:disable_coredump=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
# Debian's libraries are not instrumented: without this RocksDB gives false reports, with it our own races are found.
TSAN = {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1:second_deadlock_stack=1"}

# The marks of what runs with the release build.
RELEASE = "release or release_only"

# What runs for a pattern that names no suite.
PATTERN_SUITES = ("unit-asan", "bench-asan", "stage-asan", "mount-asan", "mount-asan-alone")


def plan(options):
    if options.quick:
        return quick(options)
    everything = all_suites(options, "")
    if not options.filter:
        return everything
    named = [suite for suite in everything if options.filter in suite.name]
    if not named:  # a pattern for tests: they run with the first sanitizer alone
        named = [suite for suite in all_suites(options, options.filter) if suite.name in PATTERN_SUITES]
    builds = {need for suite in named for need in suite.needs}
    return [suite for suite in everything if suite.name.startswith("build-") and suite.name[6:] in builds
            and suite.name not in [one.name for one in named]] + named


def sources():
    return [Format(), *([House()] if House.PROGRAM.exists() else []), Mutations()]


def quick(options):
    """What to run before each commit: some two minutes beside the build, which is g++'s without a sanitizer."""
    return [
        *sources(),
        Build("dev", ("tierfs", "unit_tests"), 780, options.jobs),
        Unit("dev", 120, "", {}, False, options.jobs).in_lane("unit"),
        Quick(120).in_lane("mounts"),
    ]


def all_suites(options, pattern):
    times = 10 if options.full else 1
    mounts_asan = Mounts("asan", 1000 * times, pattern, "not release_only", 3, options.full).shared(3).in_lane("mounts")
    return [
        *sources(),
        Build("asan", ("tierfs", "tierfs-stage", "iobench", "micro", "slow-file", "unit_tests", *(f"fuzz_{name}" for name in names())), 780,
              options.jobs),
        # The mount tests take longest. Like what runs beside them they wait for servers, disks and deadlines most of the
        # time. The faults with AddressSanitizer: what a broken reply or a request that is cut leaves behind is memory used
        # too late, which the release build hides.
        mounts_asan,
        Stage("asan", 300 * times, pattern, 3, options.full).in_lane("tools"),
        Faults("fault-points", "points", "asan", 330 * times, 3, options.full).in_lane("tools"),
        Faults("stale-cache", "stale", "asan", 190 * times, 3, options.full).in_lane("tools"),
        Matrix("asan", 280 * times, 3, options.full).in_lane("servers"),
        Faults("crash", "crash", "asan", 350 * times, 3, options.full).in_lane("servers"),
        Joined(mounts_asan).in_lane("servers"),
        # They give way to all others.
        Fuzz(options.full, options.jobs, ASAN).in_lane("sources"),
        Tidy(options.full, options.jobs).in_lane("sources"),
        Alone("asan", 90 * times, pattern, "not release_only", 3, options.full),
        Build("release", ("tierfs", "tierfs-stage", "iobench"), 600, options.jobs),
        # iobench drops the kernel's caches, on which mount tests count, and what measures; the unit tests want processors.
        Bench("asan", 330 * times, pattern, 3, options.full).in_lane("tools"),
        Pages("release", 120 * times, pattern, 4, options.full).in_lane("tools"),
        Unit("asan", 300 * times, pattern, ASAN, options.full, options.jobs).in_lane("unit"),
        Build("tsan", ("tierfs", "unit_tests"), 700, options.jobs),
        # Processors for the unit tests and the compiler, waits for the mount tests. The unit tests have run with
        # AddressSanitizer, and many of them start no threads: a half.
        Unit("tsan", 330 * times, pattern, TSAN, options.full, options.jobs).sample(2).in_lane("unit"),
        Mounts("tsan", 480 * times, pattern, "tsan", 4, options.full).shared().in_lane("mounts"),
        # Each of them has run with AddressSanitizer: a third, and all that only this build can.
        Mounts("release", 300 * times, pattern, RELEASE, 3, options.full).sample(3).shared().in_lane("mounts"),
        Package("release", 160, pattern, options.full).in_lane("package"),
        Faults("crash-release", "crash", "release", 150 * times, 2, options.full, "release").in_lane("package"),
        Sample(options.full, options.jobs).in_lane("package"),
        Alone("tsan", 60 * times, pattern, "tsan", 4, options.full),
        Alone("release", 120 * times, pattern, RELEASE, 2, options.full).sample(3),
    ]
