"""The parts of bench/compare-mounts that need no mount: options, figures, ratios, what fio and the proxy say, the plan."""

import json
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from compare_mounts import fio, main, reference, results, steps, summary  # noqa: E402
from compare_mounts import options as command_line  # noqa: E402
from compare_mounts.figures import Figures, figures_of  # noqa: E402
from compare_mounts.session import Session, target_of  # noqa: E402
from compare_mounts.world import image_bytes  # noqa: E402
from lib import host, statistics  # noqa: E402
from lib.datasets import Dataset  # noqa: E402
from lib.peers import PEERS, place  # noqa: E402
from lib.process import signals_held  # noqa: E402
from lib.servers import Counted, shaping  # noqa: E402


def filled(**values):
    """Figures of files_per_s in the case c: filled(tierfs={0: 10, 1: 20}, s3fs=...)."""
    figures = Figures()
    for target, rounds in values.items():
        for number, value in rounds.items():
            figures.add(number, target, "c", "files_per_s", value, "files/s", "higher")
    return figures


def test_quantiles_are_between_neighbours_in_proportion():
    assert statistics.median([3, 1, 2]) == 2
    assert statistics.median([4, 1, 2, 3]) == 2.5
    assert statistics.quantile([0, 10], 0.95) == pytest.approx(9.5)
    assert statistics.quantile([7], 0.95) == 7


def test_an_interval_is_the_same_each_time_and_holds_the_median():
    values = [10, 12, 11, 30, 9, 11, 10]
    low, high = statistics.interval(values)
    assert [low, high] == statistics.interval(values)
    assert 9 <= low <= statistics.median(values) <= high <= 30
    assert statistics.interval([5]) == [5, 5]
    assert statistics.interval([5, 9]) == [5, 9]


def test_a_ratio_comes_from_values_of_the_same_round():
    figures = filled(tierfs={0: 100, 1: 10, 2: 40}, s3fs={0: 50, 1: 5, 2: 20})
    (ratio,) = figures.ratios()
    assert (ratio["against"], ratio["times_better"], ratio["ci95"]) == ("s3fs", 2, [2, 2])


def test_a_round_that_one_side_lacks_is_no_pair():
    (ratio,) = filled(tierfs={0: 100, 2: 40}, s3fs={1: 5, 2: 20}).ratios()
    assert ratio["times_better"] == 2


def test_less_is_better_where_the_figure_says_so_and_nothing_is_divided_by_zero():
    figures = Figures()
    for target, seconds, requests in (("tierfs", 2.0, 0), ("s3fs", 8.0, 5)):
        figures.add(0, target, "find", "find_s", seconds, "s", "lower")
        figures.add(0, target, "find", "requests", requests, "requests", "lower")
        figures.add(0, target, "find", "files", 7, "files", "neither")
    (ratio,) = figures.ratios()
    assert (ratio["metric"], ratio["times_better"]) == ("find_s", 4)


def test_a_figure_has_its_values_in_the_order_of_rounds():
    figures = filled(tierfs={2: 30, 0: 10, 1: 20})
    ((document,), dropped) = figures.documents(["tierfs"], lambda case: True)
    assert dropped == []
    assert document["values"] == [10, 20, 30]
    assert (document["median"], document["min"], document["max"], document["outliers"]) == (20, 10, 30, [])
    assert figures.documents(["tierfs"], lambda case: case != "c") == ([], [])


def test_values_of_one_index_are_of_one_round():
    figures = filled(tierfs={0: 10, 1: 20, 2: 30}, s3fs={0: 1, 2: 3}, native={0: 5, 1: 6, 2: 7})
    figures.add(1, "tierfs", "alone", "cpu_s", 4, "s", "lower")
    documents, dropped = figures.documents(["tierfs", "s3fs", "native"], lambda case: True)
    assert [(one["target"], one["case"], one["values"]) for one in documents] == [
        ("tierfs", "c", [10, 30]), ("tierfs", "alone", [4]), ("s3fs", "c", [1, 3]), ("native", "c", [5, 7])]
    assert len(dropped) == 2 and all(text.startswith("round 2 of ") and text.endswith(": c") for text in dropped)
    documents, dropped = filled(tierfs={0: 10}, s3fs={1: 2}).documents(["tierfs", "s3fs"], lambda case: True)
    assert documents == [] and len(dropped) == 2


def test_an_outlier_is_named_by_its_place():
    figures = filled(tierfs=dict(enumerate([10, 11, 10, 900, 11, 10])))
    assert figures.documents(["tierfs"], lambda case: True)[0][0]["outliers"] == [3]


@pytest.mark.parametrize("document", [{}, {"format": "iobench", "version": 2, "figures": []},
                                      {"format": "other", "version": 1, "figures": []}])
def test_what_is_no_result_file_is_refused(document):
    with pytest.raises(ValueError, match="not a result file"):
        figures_of(document)


def test_the_command_line_knows_quick_and_full():
    full, quick = command_line.parse([]), command_line.parse(["--quick"])
    assert (full.scale, full.runs, full.sample, full.latency, full.rate) == (1, 5, 600, [0, 20], 80_000_000)
    assert quick.scale < full.scale and quick.runs < full.runs and quick.budget < 10 and full.budget < 60
    assert full.peers == list(PEERS) and "fio" not in quick.only
    assert command_line.parse(["--quick", "--runs", "7", "--scale", "tiny"]).runs == 7
    assert command_line.parse(["--latency", "0,5ms,20"]).latency == [0, 5, 20]
    assert command_line.parse(["-o", "origin.hedge=0"]).tierfs_options == {"origin.hedge": "0"}


@pytest.mark.parametrize("words", [
    ["--peers", "tierfs,nfs"], ["--peers", "s3fs,s3fs"], ["--only", "nothing"], ["--latency", "fast"], ["--latency", "-1"],
    ["--latency", "20,20ms"], ["--latency", "nan"], ["--scale", "0"], ["--scale", "11"], ["--runs", "0"], ["--runs", "1.5"],
    ["--server", "minio"], ["-o", "origin.hedge"], ["--ports", "80"], ["--rate", "-1"]])
def test_wrong_usage_is_refused(words):
    with pytest.raises(SystemExit) as ended:
        command_line.parse(words)
    assert ended.value.code == 2


def test_the_proxy_counts_what_its_log_says():
    counted = Counted()
    for line in ("1.0\tGET\t200\t400\t/bench?list-type=2&prefix=a", "1.0\tGET\t206\t100\t/bench/a/b", "1.0\tHEAD\t404\t0\t/bench/x",
                 "1.0\tGET\t503\t10\t/bench/a/b", "1.0\tPUT\t200\t0\t/bench/y", "1.0\tGET\t499\t30\t/bench/a/c"):
        counted.add(line, "/")
    assert (counted.requests, counted.lists, counted.objects, counted.heads, counted.others) == (6, 1, 3, 1, 1)
    assert (counted.bytes, counted.object_bytes, counted.errors, counted.cancelled) == (540, 140, 1, 1)


def test_the_proxy_waits_and_limits_only_where_told():
    assert shaping(0, 0) == ""
    assert "sleep(0.02)" in shaping(20, 0) and "limit_rate" not in shaping(20, 0)
    assert "limit_rate 80000000;" in shaping(20, 80_000_000)


def job(name, **changes):
    return {"jobname": name, "error": 0,
            "read": {"bw_bytes": 5_000_000, "iops": 50.5, "total_ios": 9,
                     "clat_ns": {"percentile": {"50.000000": 2000, "99.000000": 7000}}, **changes.pop("read", {})}, **changes}


def test_fio_s_figures():
    found, problems = fio.figures_of({"jobs": [job("a"), job("mixed")]}, "mixed")
    assert ("fio-mixed-a", "mb_per_s", 5, "MB/s", "higher") in found
    assert ("fio-mixed", "p99_us", 7, "us", "lower") in found
    assert problems == []


@pytest.mark.parametrize("bad", [job("a", error=5), job("a", read={"total_ios": 0})])
def test_a_job_of_fio_that_failed_gives_no_figure_and_is_named(bad):
    found, problems = fio.figures_of({"jobs": [bad, job("b")]}, "seq")
    assert {figure[0] for figure in found} == {"fio-seq-b"}
    assert len(problems) == 1 and "fio-seq-a" in problems[0]


def test_jobs_of_a_file_of_fio():
    assert fio.jobs_of("[global]\nbs=4k\n# [no]\n[read-1m]\nrw=read\n[b 10%]\n") == ["read-1m", "b 10%"]


def test_fio_reads_files_of_one_size_where_it_reads_small_ones():
    dataset = Dataset(Path("/nowhere"), 1)
    told = fio.environment(Path("small-files.fio"), Path("/mnt/x"), dataset)
    assert (told["DIR"], told["BS"]) == ("/mnt/x/medium", "112640")
    told = fio.environment(Path("random.fio"), Path("/mnt/x"), dataset)
    assert (told["DIR"], told["FILE"], told["SIZE"], told["PART"]) == ("/mnt/x", "large/big.bin", str(256 << 20), str(64 << 20))
    assert "AWS_CA_BUNDLE" not in told


def test_samples_of_a_size_are_disjoint_and_as_many_as_there_can_be():
    whole = steps.size_of(Dataset(Path("/nowhere"), 1))
    assert whole.samples == {"small-1": 200, "small-4": 600, "medium-4": 600, "medium-epoch": 600}
    tiny = steps.size_of(Dataset(Path("/nowhere"), 0.001))
    assert tiny.samples["small-1"] * 2 <= 200 and tiny.samples["medium-4"] * 2 <= 50
    assert tiny.sequential == 64 << 20


def test_every_case_belongs_to_a_part_and_every_step_to_a_group():
    assert {step.group for step in steps.STEPS} <= set(steps.GROUPS)
    assert steps.part_of("mount") == steps.part_of("find-cold") == "names"
    assert steps.part_of("16k-1p-warm") == "smallfiles" and steps.part_of("fio-x") == "fio"
    assert steps.part_of("large-mount") == "costs"
    assert len({step.case for step in steps.STEPS}) == len(steps.STEPS)


def test_the_plans_leave_time_for_building_and_preparing():
    for options, most in ((command_line.parse([]), 2400), (command_line.parse(["--quick"]), 330)):
        size = steps.size_of(Dataset(Path("/nowhere"), options.scale), options.sample, options.sequential, options.reads)
        total = sum(steps.group_seconds(group, peer, latency, size) for group in ("files", "large", "random")
                    for peer in PEERS for latency in options.latency)
        assert total * options.runs < most


def test_references_are_used_only_where_they_hold():
    assert reference.expected("s3fs", 20, "16k-1p-cold", "files_per_s", "files_per_s", False) == 23
    assert reference.expected("s3fs", 20, "16k-1p-cold", "p99_us", "files_per_s", True) is None
    assert reference.expected("s3fs", 5, "16k-1p-cold", "files_per_s", "files_per_s", True) is None
    assert reference.expected("s3fs", 0, "find-cold", "find_s", "find_s", False) is None
    assert reference.expected("s3fs", 0, "find-cold", "requests", "find_s", True) == 22150
    assert reference.expected("native", 20, "seq-cold", "mb_per_s", "mb_per_s", True) == 598  # no network in it
    assert reference.expected("another", 0, "seq-cold", "mb_per_s", "mb_per_s", True) is None


def test_a_figure_out_of_range_is_said_with_its_reason(monkeypatch):
    monkeypatch.setitem(reference.REASONS, ("rclone", "16k-1p-cold"), "because")
    figures = Figures()
    figures.add(0, "s3fs", "16k-1p-cold", "files_per_s", 23 * 1.4, "files/s", "higher")
    figures.add(0, "rclone", "16k-1p-cold", "files_per_s", 43 * 1.6, "files/s", "higher")
    rows = summary.reference_rows(figures, ["s3fs", "rclone"], 20, False)
    assert [row[6] for row in rows] == ["", "OUT OF RANGE because"]
    assert "OUT OF RANGE because" in summary.reference_table(rows)


def test_a_slower_machine_is_the_reason_where_native_is_slower_as_well():
    figures = Figures()
    for peer, case, metric, known, quotient in [("native", "16k-4p-cold", "files_per_s", 31803, 0.5),
                                                ("s3fs", "16k-4p-cold", "files_per_s", 640, 0.4),
                                                ("s3fs", "find-cold", "find_s", 7.1, 2.2),
                                                ("rclone", "16k-4p-cold", "files_per_s", 945, 1.6)]:
        figures.add(0, peer, case, metric, known * quotient, "", "")
    remarks = {(row[0], row[1]): row[6] for row in summary.reference_rows(figures, ["native", "s3fs", "rclone"], 0, True)}
    assert remarks["native", "16k-4p-cold"] == "OUT OF RANGE"
    assert remarks["s3fs", "16k-4p-cold"] == remarks["s3fs", "find-cold"] == "the machine: native gives 0.50 of its own"
    assert remarks["rclone", "16k-4p-cold"] == "OUT OF RANGE"


def test_rounds_that_were_left_out_are_not_counted():
    assert filled(tierfs={0: 10, 2: 11}, native={0: 40}).rounds() == 2


@pytest.mark.parametrize("rounds,shown", [(5, ["(0.25-0.25)"]), (4, [])])
def test_the_table_shows_ratios_below_one_and_gaps(rounds, shown):
    """And intervals of rounds enough."""
    figures = filled(tierfs=dict.fromkeys(range(rounds), 10), native=dict.fromkeys(range(rounds), 40))
    figures.add(0, "tierfs", "mount", "mount_s", 0.5, "s", "lower")
    monkeyed = [("mount", "mount_s"), ("c", "files_per_s")]
    kept, summary.HEADLINES = summary.HEADLINES, monkeyed
    try:
        lines = summary.figure_table(figures, ["tierfs", "native"]).splitlines()
    finally:
        summary.HEADLINES = kept
    assert lines[1].split() == ["mount", "mount_s", "0.50", "-", "-"]
    assert lines[2].split() == ["c", "files_per_s", "10", "40", "0.25", *shown]


def test_a_result_file_is_json_whatever_is_in_it(folder):
    document = {"format": "iobench", "command": ['a"b\n', "é"], "figures": [{"x": 1}, {"x": [1.5]}], "warnings": [], "n": None}
    results.write_json(folder / "new" / "r.json", document)
    assert json.loads((folder / "new" / "r.json").read_text()) == document
    assert [entry.name for entry in (folder / "new").iterdir()] == ["r.json"]


@pytest.mark.parametrize(("what", "elsewhere"), [
    ("caches were dropped by somebody else", True), ("the hypervisor gave 12 % of the CPUs to others", True),
    ("other programs used 40 % of the CPUs, most of it by radosgw (process 12)", False),
    ("other programs used 40 % of the CPUs, most of it by cc1plus (process 12)", True),
    ("other programs used 4 % of the CPUs", True)])
def test_what_the_server_uses_is_no_disturbance(what, elsewhere):
    assert results.is_from_elsewhere(what) is elsewhere


class FakeSession:
    """Takes `seconds` of a clock of the test's own; fails for the peers in `bad`."""

    seconds, bad, done, lefts = 10, (), [], []

    def __init__(self, _world, figures, line, peer, group, number):
        self.figures, self.peer, self.group, self.number = figures, peer, group, number
        self.line, self.documents, self.warnings, self.target = line, [], [], None

    def run(self, left):
        FakeSession.lefts.append(left)
        FakeSession.clock += self.seconds
        FakeSession.done.append((self.number, self.peer, self.group))
        if self.peer in self.bad:
            raise OSError("no more")


@pytest.fixture
def fake_run(monkeypatch):
    """A Run whose sessions take time of a fake clock."""
    monkeypatch.setattr(FakeSession, "clock", 0.0, raising=False)
    monkeypatch.setattr(FakeSession, "done", [])
    monkeypatch.setattr(FakeSession, "lefts", [])
    monkeypatch.setattr(main, "Session", FakeSession)
    monkeypatch.setattr(main.time, "monotonic", lambda: FakeSession.clock)

    def make(**changes):
        options = SimpleNamespace(**{"budget": 57, "runs": 3, "peers": ["tierfs", "s3fs"], "only": ["files", "large"], **changes})
        run = main.Run.__new__(main.Run)
        line = SimpleNamespace(latency_ms=0, name=lambda: "0 ms")
        written = []
        result = SimpleNamespace(take=lambda _: None, write=written.append, warnings=[])
        run.options, run.began, run.failed = options, 0.0, []
        run.world = SimpleNamespace(lines=[line], size=steps.size_of(Dataset(Path("/nowhere"), 0.001)))
        run.figures, run.results = {0: Figures()}, {0: result}
        return run, result, written

    return make


def test_all_peers_come_in_each_round_another_one_first(fake_run):
    run, result, written = fake_run()
    assert run.measure()
    firsts = [next(peer for number, peer, _ in FakeSession.done if number == n) for n in range(3)]
    assert firsts == ["tierfs", "s3fs", "tierfs"]
    assert len(FakeSession.done) == 12 and len(written) == 12 and result.warnings == []


def test_rounds_for_which_there_is_no_time_are_left_out_and_that_is_said(fake_run):
    run, result, _ = fake_run(budget=1.9)  # 114 s, 20 of them kept for the end: two rounds of 40 s
    assert not run.measure()
    assert {number for number, _, _ in FakeSession.done} == {0, 1} and len(FakeSession.done) == 8
    assert "1 of 3 rounds were left out" in result.warnings[0]


def test_a_first_round_that_takes_too_long_ends_all_the_same(fake_run):
    run, result, _ = fake_run(budget=0.75)  # 25 s
    assert not run.measure()
    assert len(FakeSession.done) == 3 and FakeSession.lefts == [25, 15, 5]
    assert "left out" in result.warnings[0]


def test_a_mount_that_fails_does_not_stop_the_others(fake_run, monkeypatch):
    monkeypatch.setattr(FakeSession, "bad", ("tierfs",))
    run, _, _ = fake_run(runs=1)
    assert run.measure()
    assert len(run.failed) == 2 and "no more" in run.failed[0] and len(FakeSession.done) == 4


def test_files_of_earlier_runs_stay_and_the_page_has_those_of_this_one(fake_run, folder, monkeypatch):
    old, new = folder / "compare-mounts-5ms-names.json", folder / "compare-mounts-0ms-names.json"
    for path in (old, new):
        path.write_text("{}")
    run, result, _ = fake_run(out=folder, server="nginx", rate=0)
    result.write = lambda complete: [new]
    pages = []
    monkeypatch.setattr(main.results, "write_page", lambda options, files, deadline: pages.append(files))
    run.finish(False)
    assert old.exists() and pages == [[new]]


def test_a_session_has_no_more_time_than_the_budget():
    session = Session.__new__(Session)
    session.limit, given = 120, []

    def no_place(_peer, _line, deadline):
        given.append(deadline.seconds)
        raise OSError("enough")

    session.world, session.peer, session.line = SimpleNamespace(place=no_place), "tierfs", None
    for left in (7, 500):
        with pytest.raises(OSError, match="enough"):
            session.run(left)
    assert given == [7, 120]


def test_a_step_begins_where_the_one_before_it_ended(monkeypatch):
    session, marks, counted = Session.__new__(Session), iter(range(100)), []
    session.group = "large"
    session.line = SimpleNamespace(proxy=SimpleNamespace(mark=lambda *_: next(marks)))
    monkeypatch.setattr(session, "_iobench", lambda *_: None)
    monkeypatch.setattr(session, "_count", lambda *words: counted.append(words))
    session._steps(None, None)
    assert counted == [("seq-cold", 0, 1), ("seq-warm", 1, 2), ("seq-warm-disk", 2, 3)]


def test_a_disturbance_has_the_case_of_its_step_and_is_in_the_file_of_its_part(folder):
    size = SimpleNamespace(samples={}, sequential=1, reads=1)
    options = SimpleNamespace(server="nginx", scale=1, runs=1, peers=["s3fs"], out=folder)
    world = SimpleNamespace(options=options, dataset=Dataset(Path("/nowhere"), 1), size=size, facts={})
    line = SimpleNamespace(latency_ms=0.0, first_byte_ms=0.1, rate=0)
    kept = results.Results(world, line, Figures(), results.now(), "1")
    by_case = {step.case: step for step in steps.STEPS}

    def said(case):
        return {"host": {"x": 1}, "warnings": [],
                "disturbances": [{"target": "a", "case": case, "run": 1, "what": "caches were dropped"}]}

    kept.take(SimpleNamespace(warnings=[], target=None, peer="s3fs", number=2, documents=[
        (by_case["16k-4p-cold"], said("shuffled")), (by_case["metadata"], said("open"))]))
    (one,), (other,) = (kept.document(part, True)["disturbances"] for part in ("smallfiles", "names"))
    assert (one["case"], one["target"], one["run"]) == ("16k-4p-cold", "s3fs", 3)
    assert other["case"] == "metadata-open"
    assert kept.document("epoch", True)["disturbances"] == []


@pytest.mark.parametrize(("point", "written"), [
    ("/mnt/plain", b"/mnt/plain"), ("/mnt/a b\tc\\d", b"/mnt/a\\040b\\011c\\134d"),
    ("/mnt/caf\u00e9", "/mnt/caf\u00e9".encode()), ("/mnt/\udcff\x0bx", b"/mnt/\xff\x0bx")])
def test_a_mount_point_is_found_whatever_its_name(point, written, folder, monkeypatch):
    (folder / "mounts").write_bytes(b"old " + written + b" xfs rw 0 0\n/dev/a\\040b " + written
                                    + b" fuse.x ro,a=b 0 0\nother /mnt/\xfe ext4 rw 0 0\n")
    monkeypatch.setattr(host, "MOUNTS", str(folder / "mounts"))
    assert host.mount_at(Path(point)) == ("/dev/a b", "fuse.x", "ro,a=b")
    assert host.mounted_type(point) == "fuse.x" and host.mounted_type(point + "/x") is None
    target = target_of("s3fs", Path(point))
    assert (target["fs_type"], target["fs_source"]) == ("fuse.x", "/dev/a b")
    assert "\\udc" not in json.dumps(target)


def test_a_signal_while_something_is_put_away_waits_for_its_end():
    done, kept = [], signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            with signals_held():
                signal.raise_signal(signal.SIGINT)
                done.append("put away")
        assert done == ["put away"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, kept)


def fails(*_):
    raise OSError("busy")


def test_what_cannot_be_unmounted_is_stopped_all_the_same(monkeypatch):
    stopped = []
    monkeypatch.setattr(place, "unmount", fails)
    monkeypatch.setattr(place, "stop", stopped.append)
    mount = place.Foreground.__new__(place.Foreground)
    mount.mountpoint, mount.process = Path("/nowhere"), "its process"
    with pytest.raises(OSError, match="busy"):
        mount.close()
    assert stopped == ["its process"]


def test_a_disk_that_cannot_be_unmounted_is_detached_all_the_same(monkeypatch):
    ran = []
    monkeypatch.setattr(host, "unmount", fails)
    monkeypatch.setattr(host, "run", lambda command, *_, **__: ran.append(command))
    disk = host.LoopXfs.__new__(host.LoopXfs)
    disk.mountpoint, disk.device = Path("/nowhere"), "/dev/loop-of-nobody"
    with pytest.raises(OSError, match="busy"):
        disk.close()
    assert ran == [["losetup", "--detach", "/dev/loop-of-nobody"]] and disk.device is None


def test_native_is_unmounted_before_the_clock_of_mounting_begins(monkeypatch):
    module = sys.modules["lib.peers.native"]
    clock = SimpleNamespace(now=0.0)

    def takes(seconds):
        def act(*_):
            clock.now += seconds
        return act

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(module, "run", takes(1))
    disk = SimpleNamespace(mountpoint=Path("/nowhere"), unmount=takes(100), mount=takes(10))
    assert PEERS["native"](SimpleNamespace(native=disk, deadline=None)).mount_s == 11


def test_tierfs_is_mounted_when_its_command_and_a_stat_have_ended(folder, monkeypatch):
    module = sys.modules["lib.peers.tierfs"]
    clock = SimpleNamespace(now=0.0)

    def run(command, *_, **__):
        clock.now += {"stat": 1, "tierfs": 10}[command[0]]
        if command[1] == "status":
            clock.now += 100
        return 0, '{"pid": 1, "memory": {}}', ""

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr(module, "MemoryPeak", lambda pid: None)
    endpoint = SimpleNamespace(endpoint="http://127.0.0.1:1", access_key="a", secret_key="b")
    assert module.Tierfs("tierfs", endpoint, folder / "m", folder / "c", {}, [], None).mount_s == 11


def test_an_upload_that_breaks_off_is_done_again(folder):
    dataset = Dataset(folder, 1)
    for name in ("small", "medium", "large"):
        dataset.manifest_of(name).write_text("")
    server = SimpleNamespace(kind="nginx", folder=folder / "nginx", endpoint="http://127.0.0.1:1")
    stamp = folder / "uploaded-nginx.json"
    stamp.write_text(json.dumps(dataset.content()))
    dataset.upload(server, folder, None)  # the same: nothing to do
    stamp.write_text("{}")
    with pytest.raises(FileNotFoundError):  # there is no source
        dataset.upload(server, folder, None)
    assert not stamp.exists()


@pytest.mark.parametrize("scale", [0.001, 1, 3.9, 10])
def test_the_disks_have_room_for_the_dataset(scale):
    dataset = Dataset(Path("/nowhere"), scale)
    size = image_bytes(dataset)
    assert size >= max(10 << 30, 1.3 * dataset.bytes) and size % (1 << 20) == 0
