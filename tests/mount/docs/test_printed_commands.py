"""Every command that README.md, bench/README.md and the manual print is one that the programs know; the ones that a reader types
first are run, in their order, on a real mount."""

import os
import re
import shlex
from pathlib import Path

import pytest

from harness import daemon, data, pages, processes

TOP = daemon.REPOSITORY
PROGRAMS = {name: str(Path(daemon.BINARY).resolve().with_name(name)) for name in ("tierfs", "tierfs-stage", "iobench")}
PROGRAMS["iobench"] = os.environ.get("TIERFS_TEST_IOBENCH", PROGRAMS["iobench"])
# Options of mount(8) and words that stand for options.
OF_MOUNT = {"ro", "rw", "noatime", "_netdev", "nofail", "noauto", "OPTIONS", "..."}
START = re.compile(r"^(?:sudo )?(tierfs-stage|tierfs|iobench|mount) (?=\S)")


def commands(page):
    lines = [line for block in pages.blocks(page) for line in block] + pages.in_running_text(page)
    return [line.removeprefix("sudo ") for line in lines
            if START.match(line) and (not line.startswith("mount") or "fuse.tierfs" in line)]


def words_of(line):
    """Without the signs of a synopsis."""
    return shlex.split(re.sub(r"\.\.\.|[\[\]{}()|]", " ", line.replace("...]", "]")).replace("'", "").replace('"', ""))


class Known:
    """What the programs say of themselves."""

    def __init__(self):
        self.helps = {}
        # The usage alone knows the verbs.
        self.verbs = set(re.findall(r"^(?:Usage:)? +tierfs ([a-z]+) ", self.help("tierfs"), re.M))
        for name in ("tierfs-stage", "iobench"):
            self.helps[name, "verbs"] = re.findall(r"^  ([a-z-]+)  ", self.help(name).partition("Subcommands:")[2], re.M)

    def help(self, *words):
        if words not in self.helps:
            self.helps[words] = processes.check([PROGRAMS[words[0]], *words[1:], "--help"]).out
        return self.helps[words]

    def verbs_of(self, program):
        return self.verbs if program == "tierfs" else self.helps[program, "verbs"]


@pytest.fixture(scope="module", name="known")
def known_commands():
    if not os.access(PROGRAMS["iobench"], os.X_OK):
        pytest.skip("there is no iobench beside tierfs")
    return Known()


def wrong_settings(text, folder):
    """What -o KEY=VALUE,... has that no mount would take."""
    lines = []
    for one in text.split(","):
        key, _, value = one.partition("=")
        if key in OF_MOUNT or key.startswith("x-systemd") or key in ("config", "KEY", "key") or not key:
            continue
        if value and re.fullmatch(r"[A-Z/]+", value) and not value.startswith("/"):
            value = {"I/N": "0/4"}.get(value)  # a placeholder: the key alone is checked
        known = re.search(rf"^  {re.escape(key)}\b", processes.check([PROGRAMS["tierfs"], "--help"]).out, re.M)
        if not known and key != "pack":
            return f"no setting {key}"
        if value is not None and key != "pack":
            lines.append(f'{key}: "{value or "true"}"')
    (folder / "settings.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    checked = processes.run([PROGRAMS["tierfs"], "config", "--check", folder / "settings.yaml"])
    return "" if not lines or checked.returncode == 0 else checked.err


def wrong(line, known, folder):
    words = words_of(line)
    program, rest = words[0], words[1:]
    # -o is a file to write where a verb's help says nothing of settings.
    of_verb = program != "mount" and rest[0] in known.verbs_of(program)
    has_settings = not of_verb or re.search(r"^ +-o.*setting", known.help(program, rest[0]), re.M)
    settings = [rest[at + 1] for at, word in enumerate(rest[:-1]) if word == "-o" and has_settings]
    problems = [problem for problem in (wrong_settings(text, folder) for text in settings) if problem]
    if program == "mount":
        return problems
    if program == "tierfs" and rest[0] not in known.verbs:
        if rest[0] in ("--help", "--version"):
            return problems
        if not re.match(r"/|s3://|nfs://|file://|SOURCE$|[a-z./]*SOURCE", rest[0]):
            problems.append(f"no verb {rest[0]}")
        return problems + [f"no option {word}" for word in rest if word.startswith("-") and word not in ("-o", "-f")]
    verbs = [word for word in rest if word in known.verbs_of(program)][:6] if "{" in line else rest[:1]
    for verb in verbs:
        if verb.startswith("-"):
            told = known.help(program)
        elif verb in known.verbs_of(program):
            told = known.help(program, verb)
        else:
            problems.append(f"no verb {verb}")
            continue
        for option in {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}:
            if not re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", told):
                problems.append(f"no option {option} of {verb}")
    return problems


@pytest.mark.parametrize("page", pages.PAGES, ids=pages.name_of)
def test_commands_are_known(page, known, folder):
    said = commands(page)
    assert said
    found = {line: problems for line in said if (problems := wrong(line, known, folder))}
    assert not found, "\n".join(f"{line}: {problems}" for line, problems in found.items())


def test_what_is_wrong_is_noticed(known, folder):
    for line in ("tierfs statsu /mnt/data", "tierfs status /mnt/data --jsn", "tierfs /a /b -o memory.limt=8G",
                 "tierfs /a /b -o memory.limit=8Q", "iobench run --suit epoch", "tierfs-stage inn s3://b /x",
                 "mount -t fuse.tierfs /a /b -o nvme.pth=/x"):
        assert wrong(line, known, folder), line


def typed(page, first, last):
    """The commands of a page from the one that begins so to the other."""
    lines = commands(page)
    begin = next(at for at, line in enumerate(lines) if line.startswith(first))
    end = next(at for at, line in enumerate(lines) if at >= begin and line.startswith(last))
    return lines[begin:end + 1]


def test_readme_is_typed_on_a_real_mount(origin, mount, folder):
    for place in ("train", "val"):
        data.make_files(origin / place, 20, 5000)
    (folder / "cache").mkdir(mode=0o700)
    m = mount.prepare(origin)
    places = {"s3://bucket/prefix": str(origin), "/mnt/data": str(m.path), "/nvme/cache": str(folder / "cache")}
    lines = typed(TOP / "README.md", "tierfs s3://bucket/prefix", "tierfs umount")
    assert len(lines) >= 7
    guide = [line for line in commands(TOP / "man/tierfs-guide.7") if line.startswith("tierfs ") and "/mnt/data" in line]
    assert len(guide) >= 5
    for line in [*lines[:-1], "tierfs unpin /mnt/data/val", *guide, lines[-1]]:
        for shown, real in places.items():
            line = line.replace(shown, real)
        words = [PROGRAMS["tierfs"], *shlex.split(line)[1:]]
        if "nvme.path" in line:
            m.start([*words[:-1], f"{words[-1]},log.file={m.log},log.level=debug"])
        elif "reload" in line and m.status()["supervisor"]["enabled"] is False:
            continue  # takes Linux 6.9
        else:
            more = {"top": ["--once"], "doctor": ["--seconds", "1"], "trace": ["--seconds", "1"]}.get(words[1], [])
            processes.check([*words, *more], env=m.env, timeout=60)
    assert not m.mounted()


def test_iobench_is_typed_as_the_guide_has_it(known, origin, mount, folder):  # pylint: disable=unused-argument
    data.make_files(origin, 40, 5000)
    m = mount(origin)
    lines = [line for line in commands(TOP / "man/tierfs-guide.7") if line.startswith("iobench ") and "loader" not in line]
    assert len(lines) == 3
    for line in lines:
        words = [PROGRAMS["iobench"], *shlex.split(line.replace("/mnt/data", str(m.path)))[1:]]
        processes.check([*words, *(["--compute", "0", "--batch", "8"] if words[1] == "run" else [])],
                        env=daemon.environment(folder, m.marker), cwd=folder, timeout=60)
