"""The suites in tests/faults: mount tests in folders of their own, whose tables are shown."""

import re

from kinds import TOP, Mounts
from results import say


class Faults(Mounts):
    """pytest in tests/faults/FOLDER."""

    def __init__(self, name, folder, preset, budget, slowness, full, marks=""):
        super().__init__(preset, budget, "", marks, slowness, full)
        self.name, self.what = name, f"tests/faults/{folder} with the {preset} build"
        self.tests = TOP / "tests/faults" / folder

    def execute(self, results, failed_builds):
        super().execute(results, failed_builds)
        output = self.folder / "output"
        for table in re.findall(r"^=== (?!end).*?(?=^=== end)", output.read_text(errors="replace"), re.M | re.S):
            for line in table.rstrip().splitlines():
                say(f"{self.name}: {line}")
