"""The table at the end: each figure beside what it is compared with, its target, and whether that was met."""

import dataclasses
import json
import os
import statistics

from .statistics import LEAST_OF_INTERVAL, interval


@dataclasses.dataclass
class Row:
    """`value` and `other` in `unit`; `ratio` is value / other. `met` is None for a figure without a target."""

    step: str
    name: str
    value: float
    unit: str = ""
    other: float | None = None
    other_name: str = ""
    target: str = ""
    met: bool | None = None
    samples: list = dataclasses.field(default_factory=list)
    ratio_interval: list | None = None  # 95 %, of the rounds' ratios; None: too few

    @property
    def ratio(self):
        return self.value / self.other if self.other else None


def at_least(step, name, samples, unit, other, other_name, share):
    """A row whose median has to be `share` of the median of `other` or more. Values of one place are of one round."""
    value, base = statistics.median(samples), statistics.median(other)
    rounds = [a / b for a, b in zip(samples, other, strict=False) if b]
    return Row(step, name, value, unit, base, other_name, f"ratio >= {share:g}", value >= share * base,
               [list(samples), list(other)], interval(rounds) if len(rounds) >= LEAST_OF_INTERVAL else None)


def at_most(step, name, value, unit, most, other=None, other_name=""):
    return Row(step, name, value, unit, other, other_name, f"<= {number(most)}", value <= most)


def figure(step, name, samples, unit):
    samples = samples if isinstance(samples, list) else [samples]
    return Row(step, name, statistics.median(samples), unit, samples=samples)


def number(value):
    if value is None:
        return ""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"


def spread(row, index):
    """Least and most of the rounds, when there were several."""
    rounds = row.samples[index] if index < len(row.samples) and isinstance(row.samples[index], list) else []
    return f"{number(min(rounds))}-{number(max(rounds))}" if len(rounds) > 1 else ""


def table(rows):
    lines = [["step", "figure", "value", "range", "unit", "compared with", "range", "", "ratio", "95 %", "target", "met"]]
    for row in rows:
        ratio = f"{row.ratio:.2f}" if row.ratio is not None else ""
        likely = "-".join(f"{end:.2f}" for end in row.ratio_interval or [])
        met = {None: "", True: "yes", False: "NO"}[row.met]
        lines.append([row.step, row.name, number(row.value), spread(row, 0), row.unit, number(row.other),
                      spread(row, 1), row.other_name, ratio, likely, row.target, met])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    right = {2, 3, 5, 6, 8, 9}
    return "\n".join("  ".join(cell.rjust(width) if i in right else cell.ljust(width)
                               for i, (cell, width) in enumerate(zip(line, widths, strict=True))).rstrip()
                     for line in lines)


def write_json(path, report, rows):
    report = dict(report, rows=[dict(dataclasses.asdict(row), ratio=row.ratio) for row in rows])
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(report, file, indent=2)
        file.write("\n")
    os.replace(temporary, path)
