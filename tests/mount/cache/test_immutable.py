"""Rules with `immutable`: the kernel keeps that dataset's names for ever, counted by the daemon's messages."""

import os

import pytest

from harness import data
from test_profiles import Messages

pytestmark = pytest.mark.release


@pytest.mark.parametrize("profile", ["small", "large"])
def test_only_the_dataset_of_the_rule_costs_no_message(origin, mount, folder, profile):
    rules = folder / "tierfs.yaml"
    rules.write_text("datasets:\n  - {match: /train/**, immutable: true}\n")
    files = {}
    for name in ["train", "other"]:
        (origin / name).mkdir()
        files[name] = {f"{name}/{file}": content for file, content in data.make_files(origin / name, 20, 5000, fan=1).items()}
    m = mount(origin, {"profile": profile, "metadata.ttl": "0s", "config": str(rules)})

    def look(name):
        """Once more than it takes to know everything; from within, since the mount's root is nobody's dataset."""
        counts = None
        folder_handle = os.open(m.path / name / "d00", os.O_RDONLY | os.O_DIRECTORY)
        for _ in range(3):
            with Messages(m) as seen:
                handle = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder_handle)
                assert sorted(os.listdir(handle)) == sorted(os.path.basename(file) for file in files[name])
                os.close(handle)
                for file, expected in files[name].items():
                    assert os.stat(os.path.basename(file), dir_fd=folder_handle).st_size == len(expected)
                    handle = os.open(os.path.basename(file), os.O_RDONLY, dir_fd=folder_handle)
                    assert os.read(handle, len(expected) + 1) == expected
                    os.close(handle)
            counts = seen.counts
        os.close(folder_handle)
        return counts

    kept = look("train")
    opens = {"OPENDIR", "RELEASEDIR"} | ({"OPEN", "RELEASE", "FLUSH"} if profile == "large" else set())
    assert set(kept) <= opens, kept
    asked = look("other")
    assert asked["GETATTR"] + asked["LOOKUP"] >= 20 and asked["READDIR"] + asked["READDIRPLUS"] > 0, asked


def test_what_is_not_in_the_dataset_is_seen_when_it_changes(origin, mount, folder):
    rules = folder / "tierfs.yaml"
    rules.write_text("datasets:\n  - {match: /train/**, immutable: true}\n")
    for name in ["train", "other"]:
        (origin / name).mkdir()
        (origin / name / "a").write_bytes(b"first")
    m = mount(origin, {"metadata.ttl": "0s", "config": str(rules)})
    for name in ["train", "other"]:
        assert (m.path / name / "a").read_bytes() == b"first"
        (origin / name / "a").write_bytes(b"second one")
        (origin / name / "b").write_bytes(b"new")
    assert (m.path / "other/a").read_bytes() == b"second one" and (m.path / "other/b").exists()
    assert (m.path / "train/a").stat().st_size == 5
