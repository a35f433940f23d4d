"""An unmodified PyTorch DataLoader over the mount."""

import json
import subprocess

import pytest

from harness import data, processes

pytestmark = pytest.mark.release

# Runs in a process of its own: the workers are forked, and torch is heavy.
SCRIPT = """
import hashlib, json, os, sys
import torch.utils.data

class Files(torch.utils.data.Dataset):
    def __init__(self, root):
        self.paths = sorted(os.path.join(where, name) for where, _, names in os.walk(root) for name in names)
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        with open(self.paths[index], "rb") as handle:
            return os.path.basename(self.paths[index]), hashlib.sha256(handle.read()).hexdigest()

files = Files(sys.argv[1])
epochs = []
for _ in range(2):
    seen = []
    for names, digests in torch.utils.data.DataLoader(files, batch_size=16, shuffle=True, num_workers=2):
        seen += zip(names, digests)
    epochs.append(seen)
json.dump(epochs, sys.stdout)
"""


def test_two_shuffled_epochs(origin, mount, cache):
    if subprocess.run(["/usr/bin/python3", "-c", "import torch"], capture_output=True, timeout=120, check=False).returncode:
        pytest.skip("torch is not installed (packaging/dependencies --run)")
    import hashlib  # pylint: disable=import-outside-toplevel

    files = data.make_files(origin, 400, 15_000)
    m = mount(origin, {**cache, "metadata.ttl": "1h"})
    finished = processes.check(["/usr/bin/python3", "-c", SCRIPT, m.path], timeout=80, suspects=m.processes)
    expected = sorted((name.rpartition("/")[2], hashlib.sha256(body).hexdigest()) for name, body in files.items())
    epochs = json.loads(finished.out)
    for epoch in epochs:
        assert sorted(map(tuple, epoch)) == expected
    assert epochs[0] != epochs[1], "the order is a new one each epoch"
    status = m.status()
    assert status["reads"]["errors"] == 0
    assert status["origin"]["requests"]["get"] <= len(files) * 1.1
