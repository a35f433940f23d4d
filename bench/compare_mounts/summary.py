"""What is printed at the end: the headline figures of all mounts, the ratios of tierfs to each with their intervals (bad
ones too), and the figures of the peers beside those that are known of them."""

from lib.report import number

from . import reference
from lib.statistics import LEAST_OF_INTERVAL, median
from .steps import STEPS

HEADLINES = [("mount", "mount_s"), *((step.case, step.headline) for step in STEPS if step.headline),
             ("epoch-cold", "au_percent"), ("epoch-warm-disk", "au_percent"),
             ("metadata-lookup", "ops_per_s"), ("metadata-open", "ops_per_s"), ("metadata-negative", "ops_per_s"),
             ("find-cold", "requests"), ("files-mount", "requests"), ("files-mount", "mb_from_server"),
             ("files-mount", "cpu_s"), ("files-mount", "peak_memory_mb"), ("large-mount", "mb_from_server"),
             ("large-mount", "cpu_s"), ("random-mount", "mb_from_server")]


def lay_out(lines, right):
    """Columns under each other; the numbers of those that are aligned to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(cell.rjust(width) if i in right else cell.ljust(width)
                               for i, (cell, width) in enumerate(zip(line, widths, strict=True))).rstrip()
                     for line in lines)


def headlines(figures):
    """Those that were measured, those of fio's jobs at the end."""
    cases = HEADLINES + sorted({(one.case, one.metric) for one in figures
                                if one.case.startswith("fio-") and one.metric == "mb_per_s"})
    return [pair for pair in cases if any((one.case, one.metric) == pair for one in figures)]


def ratio_text(ratio):
    text = f"{ratio['times_better']:.2f}"
    if ratio["rounds"] < LEAST_OF_INTERVAL:
        return text
    low, high = ratio["ci95"]
    return f"{text} ({low:.2f}-{high:.2f})"


def figure_table(figures, peers):
    """Medians, and how many times better tierfs is, with the 95 % interval where there are rounds enough: below 1 it is worse."""
    others = [peer for peer in peers if peer != "tierfs"] if "tierfs" in peers else []
    ratios = {(one["case"], one["metric"], one["against"]): one for one in figures.ratios()}
    lines = [["case", "figure", *peers, *(f"against {other}" for other in others)]]
    for case, metric in headlines(figures):
        found = [figures.get(peer, case, metric) for peer in peers]
        line = [case, metric, *(number(one.median()) if one else "-" for one in found)]
        for other in others:
            ratio = ratios.get((case, metric, other))
            line.append(ratio_text(ratio) if ratio else "-")
        lines.append(line)
    return lay_out(lines, set(range(2, len(lines[0]))))


def _machine(figures):
    """How fast this machine is, with the reference's as 1: the median of what native gives of its own figures."""
    found = [(figures.get("native", step.case, step.headline), reference.expected("native", 0, step.case, step.headline,
                                                                                  step.headline, False)) for step in STEPS]
    return median([median(figure.values()) / known for figure, known in found if figure and known] or [1.0])


def reference_rows(figures, peers, latency_ms, whole):
    """[peer, case, measured, reference, quotient, remark] for each figure that a reference is known for."""
    rows, metrics = [], {step.case: step.headline for step in STEPS if step.headline}
    machine = _machine(figures)
    for peer in peers:
        for case, metric in [("find-cold", "requests"), *metrics.items()]:
            known = reference.expected(peer, latency_ms, case, metric, metrics.get(case), whole)
            figure = figures.get(peer, case, metric)
            if known is None or figure is None:
                continue
            quotient = median(figure.values()) / known
            remark = "" if 1 / reference.FACTOR <= quotient <= reference.FACTOR else _why(peer, case, metric, quotient, machine)
            rows.append([peer, case, metric, median(figure.values()), known, quotient, remark])
    return rows


def _why(peer, case, metric, quotient, machine):
    share = 1 / machine if metric.endswith("_s") and not metric.endswith("per_s") else machine
    if peer != "native" and 1 / reference.FACTOR <= quotient / share <= reference.FACTOR:
        return f"the machine: native gives {machine:.2f} of its own"
    return ("OUT OF RANGE " + reference.REASONS.get((peer, case), "")).strip()


def reference_table(rows):
    lines = [["peer", "case", "figure", "measured", "known", "quotient", ""]]
    lines += [[*row[:3], number(row[3]), number(row[4]), f"{row[5]:.2f}", row[6]] for row in rows]
    return lay_out(lines, {3, 4, 5})


def plan_text(sessions, seconds, budget):
    total = sum(seconds)
    text = f"{len(sessions)} mounts, about {total / 60:.0f} min of measuring"
    if total > budget:
        text += f": more than the {budget / 60:.0f} min that are left; rounds for which there is no time are left out"
    return text
