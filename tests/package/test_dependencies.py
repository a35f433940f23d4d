"""What packaging/dependencies wants on which system. (test_clean_root.py installs it.)"""

import os
import re
import subprocess

import pytest

from conftest import REPOSITORY

# The system that the script sees is one of another name, where nothing is installed and package lists are there.
SCRIPT = """
    set -e
    mount --make-rprivate /
    mount --bind "$0/os-release" "$(readlink -f /etc/os-release)"
    mount --bind "$0/lists" /var/lib/apt/lists
    PATH=$0/programs:$PATH exec "$@"
"""


def wanted(folder, system, *options):
    (folder / "lists").mkdir()
    (folder / "lists/example_Packages").touch()
    (folder / "os-release").write_text(system)
    (folder / "programs").mkdir()
    for name, body in (("dpkg-query", "exit 1"), ("id", "echo 1000"), ("apt-cache", "exit 0"), ("apt-get", "exit 1")):
        program = folder / "programs" / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    done = subprocess.run(["unshare", "--mount", "bash", "-c", SCRIPT, folder, REPOSITORY / "packaging/dependencies", *options],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    listed = re.search(r"needs root to install: (.*)", done.stderr)
    assert done.returncode == 1 and listed, done.stdout + done.stderr
    return set(listed.group(1).split())


@pytest.mark.parametrize("system, has_torch_and_browser", [
    ("ID=debian\nVERSION_ID=12\n", True), ("ID=ubuntu\nVERSION_ID=24.04\n", False)], ids=["debian", "ubuntu"])
def test_ubuntu_is_not_asked_for_what_it_lacks(tmp_path, system, has_torch_and_browser):
    if os.geteuid() != 0:
        pytest.skip("needs root, for a mount name space")
    packages = wanted(tmp_path, system)
    assert {"g++", "dpkg-dev", "fuse3", "python3-pytest", "lintian"} <= packages
    assert ("python3-torch" in packages) == has_torch_and_browser
    assert ("chromium" in packages) == has_torch_and_browser


def test_each_part_is_asked_for_by_its_option(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root, for a mount name space")
    packages = wanted(tmp_path, "ID=debian\nVERSION_ID=12\n", "--build")
    assert "librocksdb-dev" in packages and not packages & {"fuse3", "python3-torch", "lintian"}
