"""What was measured: a value a round for each target, case and metric; and the ratios of tierfs to the others, each from
values of the same round."""

import dataclasses

from lib.statistics import interval, median, quantile


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

    def document(self, numbers):
        """With the values of these rounds alone."""
        values = [self.rounds[number] for number in sorted(numbers)]
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

    def rounds(self):
        """That anything was measured in."""
        return len({number for one in self for number in one.rounds})

    def get(self, target, case, metric):
        return self._all.get((target, case, metric))

    def documents(self, targets, chosen):
        """(those of the cases for which `chosen` is true, in the order of the targets; sentences about what is not in
        them). Readers pair values by their index: of each figure only the rounds that all targets have which have it."""
        figures = [one for target in targets for one in self if one.target == target and chosen(one.case)]
        common, dropped = {}, {}
        for one in figures:
            key = (one.case, one.metric)
            common[key] = common.get(key, set(one.rounds)) & set(one.rounds)
        for one in figures:
            for number in sorted(set(one.rounds) - common[one.case, one.metric]):
                cases = dropped.setdefault((number, one.target), [])
                if one.case not in cases:
                    cases.append(one.case)
        return ([one.document(common[one.case, one.metric]) for one in figures if common[one.case, one.metric]],
                [f"round {number + 1} of {target} is left out, another mount has no value in it: {', '.join(cases)}"
                 for (number, target), cases in sorted(dropped.items())])

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
                          "times_better": median(times), "rounds": len(times), "ci95": interval(times)})
        return found


def figures_of(document):
    """(case, metric, value, unit, better) of a result file of iobench that holds one run of each case."""
    if document.get("format") != "iobench" or document.get("version") != 1:
        raise ValueError("not a result file of iobench, format 1")
    return [(one["case"], one["metric"], one["values"][0], one["unit"], one["better"]) for one in document["figures"]]
