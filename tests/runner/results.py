"""What came out of each test, and the last lines of a run."""

import re
import time

START = time.monotonic()
TAIL = 200  # lines shown of a failed test
CAUSE = re.compile(r"E  +\S|.*: Failure$|.*(ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error):")
CAUSE_LINES, WIDTH = 3, 300  # of the list at the end


def say(text):
    """One line with the time since the start; flushed, since a log may be all that is left of a run."""
    elapsed = int(time.monotonic() - START)
    print(f"[{elapsed // 60:02}:{elapsed % 60:02}] {text}", flush=True)


def cause(text):
    """The lines of a failed test's output that say what was wrong: from pytest's first, gtest's or a sanitizer's on, else the
    last. Where only the end of a log is kept, they are all that is left."""
    lines = [line for line in text.splitlines() if line.strip()]
    first = next((number for number, line in enumerate(lines) if CAUSE.match(line)), len(lines) - 1)
    return [re.sub(r"^E ", "", line).strip()[:WIDTH] for line in lines[max(first, 0):][:CAUSE_LINES]]


class Results:
    def __init__(self):
        self.all = []  # (suite, test, outcome, text)

    def add(self, suite, test, outcome, text=""):
        """outcome: passed, failed or skipped. text: output of a failed test, reason of a skip."""
        self.all.append((suite, test, outcome, text))
        if outcome != "passed":
            reason = [line for line in text.strip().splitlines() if not line.endswith(": Skipped")]
            first = reason[0] if reason and outcome == "skipped" else ""
            say(f"{outcome.upper()} {suite}: {test}{': ' + first if first else ''}")

    def count(self, outcome, suite=None):
        return sum(1 for where, _, what, _ in self.all if what == outcome and suite in (None, where))

    def summary(self, suite=None):
        return ", ".join(f"{self.count(outcome, suite)} {outcome}" for outcome in ("passed", "failed", "skipped"))

    def report(self):
        skipped = [entry for entry in self.all if entry[2] == "skipped"]
        failed = [entry for entry in self.all if entry[2] == "failed"]
        if skipped:
            print("\nSkipped:")
            for suite, test, _, text in skipped:
                print(f"  {suite}: {test}: {' '.join(text.split()) or 'no reason given'}")
        for suite, test, _, text in failed:
            lines = text.rstrip().splitlines()
            print(f"\n===== FAILED {suite}: {test}")
            if len(lines) > TAIL:
                print(f"(the last {TAIL} of {len(lines)} lines)")
            print("\n".join(lines[-TAIL:]))
        if failed:
            print("\nFailed:")
            for suite, test, _, text in failed:
                print("\n      ".join([f"  {suite}: {test}", *cause(text)]))
        print(f"\n{self.summary()}", flush=True)
