"""Medians, quantiles and intervals, by the same rules as iobench's own."""

import functools
import random

RESAMPLES = 4000
LEAST_OF_INTERVAL = 5  # rounds: an interval of fewer is printed nowhere


def quantile(values, share):
    """Between neighbours in proportion (Hyndman and Fan's type 7)."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def median(values):
    return quantile(values, 0.5)


def interval(values):
    """A 95 % percentile bootstrap interval of the median: the same for the same values. Of fewer than three values it
    says no more than the least and the most."""
    return list(_interval(tuple(values)))


@functools.cache  # the result files are written after each session, when most values are as they were
def _interval(values):
    if len(values) < 3:
        return min(values), max(values)
    chance = random.Random(1)
    medians = [median(chance.choices(values, k=len(values))) for _ in range(RESAMPLES)]
    return quantile(medians, 0.025), quantile(medians, 0.975)
