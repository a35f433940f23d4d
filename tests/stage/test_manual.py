"""tierfs-stage(1) and the Slurm scripts: complete as far as a program can tell. (tests/bench sees that groff has no warning.)"""

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from places import PROGRAM, daemon, processes

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "man/tierfs-stage.1"
SLURM = REPOSITORY / "packaging/slurm"


@pytest.fixture(scope="module", name="text")
def page_text():
    """What a reader sees, on long lines and not hyphenated."""
    words = ["groff", "-man", "-Tutf8", "-P-cbou", "-rLL=500n", "-rHY=0", str(PAGE)]
    shown = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout
    return shown.replace("−", "-").replace("‐", "-")


def help_of(folder, *words):
    return processes.check([PROGRAM, *words, "--help"], env=daemon.environment(folder, "tierfs-stage-manual")).out


def test_every_command_and_option_is_there(tmp_path, text):
    commands = re.findall(r"^  ([a-z-]+)", help_of(tmp_path).partition("Subcommands:")[2], re.M)
    assert {"check", "cufile-json"} <= set(commands)
    missing = []
    for command in commands:
        section = re.search(rf"^ +tierfs-stage {command}$(.*?)(?=^ +tierfs-stage [a-z-]+$|^[A-Z])", text, re.M | re.S)
        if not section:
            missing.append(command)
            continue
        for option in set(re.findall(r"(--[a-z][a-z0-9-]+)", help_of(tmp_path, command))) - {"--help"}:
            if not re.search(rf"(?<![\w-]){option}(?![\w-])", section.group(1)):
                missing.append(f"{command} {option}")
    assert not missing


def test_every_finding_is_there(text):
    """Ids of findings as they stand in the sources."""
    sources = [*(REPOSITORY / "fs/gds").glob("*.cpp"), REPOSITORY / "fs/stage/place.cpp"]
    ids = set()
    for source in sources:
        ids |= set(re.findall(r"\b(?:pass|warn|fail|skip)\((?:report\.)?findings, \"([a-z0-9-]+)\"",
                              re.sub(r"\s+", " ", source.read_text(encoding="utf-8")).replace("( ", "(")))
    assert len(ids) > 25
    assert not [name for name in ids if not re.search(rf"(?<![\w-]){name}(?![\w-])", text)]


def test_slurm_scripts_are_clean():
    scripts = sorted(SLURM.glob("*.sh"))
    assert [script.name for script in scripts] == ["epilog.sh", "prolog.sh"]
    assert all(script.stat().st_mode & stat.S_IXUSR for script in scripts)
    if not shutil.which("shellcheck"):
        pytest.skip("shellcheck is not installed (packaging/dependencies --test)")
    told = subprocess.run(["shellcheck", *map(str, scripts)], capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 0, told.stdout


class Node:
    """A node for the scripts: its lists in a folder, and stand-ins for tierfs-stage and logger that keep what they were
    asked. `wrong`: words with which tierfs-stage fails."""

    def __init__(self, folder):
        self.folder, self.log = folder, folder / "log"
        self.environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "SLURM_JOB_PARTITION": "gpu",
                            "STAGE_DATASETS": f"{folder}/datasets", "STAGE_CHECKPOINTS": f"{folder}/checkpoints",
                            "STAGE_STATE": f"{folder}/state", "LOG": str(self.log)}
        for name in ("bin", "datasets", "checkpoints"):
            (folder / name).mkdir()
        for name, text in (("tierfs-stage", 'echo "stage $*" >>"$LOG"; case " $* " in *"$WRONG"*) echo no; exit 1;; esac'),
                           ("logger", 'echo "log $*" >>"$LOG"')):
            (folder / "bin" / name).write_text(f"#!/bin/bash\nWRONG=${{WRONG:-nothing}}\n{text}\n", encoding="ascii")
            (folder / "bin" / name).chmod(0o755)

    def run(self, script, job, **more):
        """What tierfs-stage was asked, and the exit status."""
        self.log.write_text("", encoding="ascii")
        done = subprocess.run([str(SLURM / script)], env={**self.environment, "SLURM_JOB_ID": str(job), **more}, timeout=60,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        lines = self.log.read_text(encoding="ascii").splitlines()
        return [line[6:] for line in lines if line.startswith("stage ")], done.returncode


@pytest.fixture(name="node")
def slurm_node(tmp_path):
    node = Node(tmp_path)
    (tmp_path / "datasets/gpu").write_text("# what they read\ns3://b/one /nvme/one\n\ns3://b/two /nvme/two", encoding="ascii")
    return node


def test_slurm_stages_pins_and_lets_go_with_the_last_job(node):
    staged = ["in s3://b/one /nvme/one", "pin /nvme/one", "in s3://b/two /nvme/two", "pin /nvme/two"]
    assert node.run("prolog.sh", 1) == (staged, 0)
    assert node.run("prolog.sh", 2) == (staged, 0)
    assert node.run("epilog.sh", 1) == ([], 0)
    assert node.run("epilog.sh", 2) == (["unpin /nvme/one", "unpin /nvme/two"], 0)
    assert node.run("epilog.sh", 2) == ([], 0)


def test_slurm_goes_on_when_staging_fails_unless_it_is_strict(node):
    asked, status = node.run("prolog.sh", 1, WRONG="b/one")
    assert "pin /nvme/one" not in asked and "pin /nvme/two" in asked and status == 0
    assert node.run("prolog.sh", 1, WRONG="b/one", STAGE_STRICT="yes")[1] == 1
    assert node.run("epilog.sh", 1, WRONG="unpin")[1] == 0
    assert node.run("prolog.sh", 1, SLURM_JOB_PARTITION="none") == ([], 0)
    (node.folder / "datasets/gpu").write_text("s3://b/one\ns3://b/two /nvme/a b\n", encoding="ascii")
    assert node.run("prolog.sh", 1) == ([], 0)


def test_slurm_saves_checkpoints_and_keeps_what_could_not_be_saved(node):
    (node.folder / "checkpoints/gpu").write_text(f"{node.folder}/saves s3://b/saves/\n", encoding="ascii")
    for job in (1, 2):
        (node.folder / f"saves/{job}").mkdir(parents=True)
        (node.folder / f"saves/{job}/model").write_text("x", encoding="ascii")
    asked, status = node.run("epilog.sh", 1, WRONG="out ")
    assert asked == [f"out {node.folder}/saves/1 s3://b/saves/1"] and status == 0
    assert (node.folder / "saves/1/model").exists()
    assert node.run("epilog.sh", 1)[1] == 0
    assert not (node.folder / "saves/1").exists() and (node.folder / "saves/2/model").exists()
