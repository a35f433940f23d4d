"""What was measured: a value a round for each target, case and metric; and the ratios of tierfs to the others, each from
values of the same round."""

import dataclasses

from .statistics import interval, median, quantile


@dataclasses.dataclass
class Figure:
    target: str
    case: str
    metric: str
    unit: str
    better: str  # higher, lower, neither
    rounds: dict = dataclasses.field(default_factory=dict)  # number of the round: value

    def values(self):
        return [self.rounds[number] for number in sorted(self.rounds)]

    def median(self):
        return median(self.values())

    def document(self):
        values = self.values()
        low, high = quantile(values, 0.25), quantile(values, 0.75)
        reach = 1.5 * (high - low)
        return {"target": self.target, "case": self.case, "metric": self.metric, "unit": self.unit,
                "better": self.better, "values": values, "median": median(values), "p95": quantile(values, 0.95),
                "min": min(values), "max": max(values), "ci95": interval(values),
                "outliers": [i for i, value in enumerate(values) if not low - reach <= value <= high + reach],
                "share_of_peak": None}


class Figures:
    def __init__(self):
        self._all = {}  # (target, case, metric): Figure, in the order of measuring

    def __iter__(self):
        return iter(self._all.values())

    def add(self, number, target, case, metric, value, unit, better):
        key = (target, case, metric)
        if key not in self._all:
            self._all[key] = Figure(*key, unit, better)
        self._all[key].rounds[number] = float(value)

    def get(self, target, case, metric):
        return self._all.get((target, case, metric))

    def documents(self):
        return [figure.document() for figure in self]

    def ratios(self, target="tierfs"):
        """How many times better `target` is than each other one: above 1 it is faster, or asks for less. A case in which
        one of them has the value 0 has no ratio."""
        found = []
        for other in self:
            ours = self.get(target, other.case, other.metric)
            if ours is None or other.target == target or other.better == "neither":
                continue
            pairs = [(ours.rounds[n], other.rounds[n]) for n in sorted(set(ours.rounds) & set(other.rounds))]
            if not pairs or any(value <= 0 for pair in pairs for value in pair):
                continue
            times = [mine / theirs if other.better == "higher" else theirs / mine for mine, theirs in pairs]
            found.append({"target": target, "against": other.target, "case": other.case, "metric": other.metric,
                          "times_better": median(times), "ci95": interval(times), "values": times})
        return found


def figures_of(document):
    """(metric, value, unit, better) of a result file of iobench that holds one run of one case."""
    if document.get("tool") == "iobench":  # XXX
        document["targets"], document["warnings"], document["disturbances"] = [], [], []
        return [(k, v["median"], "", "lower" if k.endswith("_us") else "higher") for k, v in document["cases"][0]["summary"].items()]
    if document.get("format") != "iobench" or document.get("version") != 1:
        raise ValueError("not a result file of iobench, format 1")
    return [(one["metric"], one["values"][0], one["unit"], one["better"]) for one in document["figures"]]
