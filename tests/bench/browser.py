"""Opens a page in headless Chromium, as a reader would."""

import os
import re
import shutil
import subprocess
import tempfile

import pytest

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
# Needs neither a display nor a GPU; as root its sandbox does not work. What it would ask the network for (updates, say)
# has nothing to do with the page.
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio",
         "--enable-logging=stderr", "--virtual-time-budget=5000", "--run-all-compositor-stages-before-draw"]


def is_usable():
    """Ubuntu's program of that name may be a stand-in that only says to install a snap."""
    if not PROGRAM:
        return False
    process = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, timeout=60, check=False)
    return process.returncode == 0 and "Chromium" in process.stdout


class Opened:
    """dom: the page's elements as HTML after it was loaded; complaints: what stands on its console."""

    def __init__(self, dom, log):
        self.dom, self.log = dom, log
        self.complaints = re.findall(r"^\[.*:CONSOLE.*$", log, re.M)


def open_page(page, limit, *flags):
    """Skips the test where there is no Chromium."""
    if not is_usable():
        pytest.skip("chromium is not installed (packaging/dependencies --test; Ubuntu has it as a snap alone)")
    # A short name: below it is a socket, whose path may have 107 bytes.
    with tempfile.TemporaryDirectory(prefix="c", dir=os.environ.get("TIERFS_TEST_ROOT") or None,
                                     ignore_cleanup_errors=True) as home:
        process = subprocess.run([PROGRAM, *FLAGS, f"--user-data-dir={home}", *flags, "--dump-dom", page.as_uri()],
                                 stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                                 timeout=limit, check=False, env={**os.environ, "HOME": home, "TMPDIR": home})
    assert process.returncode == 0, process.stderr
    return Opened(process.stdout, process.stderr)
