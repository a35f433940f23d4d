"""What these mounts gave before, on a machine of two cores and 24 GiB that client, proxy, Ceph RGW and peer shared: the
median or the only run of an evening. A figure that differs by more than FACTOR is shown as such and is no failure: another
machine has other figures. Also what the estimates of the plan are made from."""

FACTOR = 1.5

# Why a figure is expected to differ on other machines or was found to: (peer, case): a sentence, shown beside it. The
# machine itself, as its native file system shows it, comes on top: see summary.reference_rows.
_SIZES = "the reference's find asked for no sizes, and this one does: native differs by more"
_FIRST_TOUCH = "of so few reads nearly each is the first in what a mount fetches at a time (s3fs sends 8 MB for each)"
_DISK = "its cache, the server's data and the page cache's disk are one here, and it writes while it reads"
REASONS = {("s3fs", "find-cold"): _SIZES, ("s3fs", "find-warm"): _SIZES, ("rclone", "find-cold"): _SIZES,
           ("rclone", "find-warm"): _SIZES, ("s3fs", "random-cold"): _FIRST_TOUCH, ("rclone", "random-cold"): _FIRST_TOUCH,
           ("s3fs", "seq-cold"): _DISK}

# (peer, latency in ms): {case: value in the unit of the case's headline metric}; 20,000 x 16 KiB, 2,000 x 110 KiB, 2 GiB.
RATES = {
    ("native", 0): {"16k-1p-cold": 16184, "16k-4p-cold": 31803, "110k-4p-cold": 10667, "seq-cold": 598,
                    "random-cold": 9390, "find-cold": 0.02},
    ("s3fs", 0): {"find-cold": 7.1, "find-warm": 0.36, "16k-1p-cold": 401, "16k-1p-warm": 499, "16k-4p-cold": 640,
                  "16k-4p-warm": 1219, "110k-4p-cold": 608, "110k-4p-warm": 1145, "seq-cold": 586, "seq-warm": 2532,
                  "random-cold": 110},
    ("s3fs", 20): {"find-cold": 27.6, "find-warm": 1.15, "16k-1p-cold": 23, "16k-1p-warm": 23, "16k-4p-cold": 57,
                   "16k-4p-warm": 92, "110k-4p-cold": 55, "110k-4p-warm": 92, "seq-cold": 343, "seq-warm": 2199,
                   "random-cold": 42},
    ("rclone", 0): {"find-cold": 0.6, "find-warm": 0.10, "16k-1p-cold": 512, "16k-1p-warm": 1618, "16k-4p-cold": 945,
                    "16k-4p-warm": 2763, "110k-4p-cold": 711, "110k-4p-warm": 1594, "seq-cold": 288, "seq-warm": 454,
                    "random-cold": 86},
    ("rclone", 20): {"find-cold": 1.5, "find-warm": 0.07, "16k-1p-cold": 43, "16k-1p-warm": 1740, "16k-4p-cold": 173,
                     "16k-4p-warm": 3715, "110k-4p-cold": 169, "110k-4p-warm": 1466, "seq-cold": 92, "seq-warm": 406,
                     "random-cold": 63},
}

# Requests at the server for a find of all 22,001 objects on a fresh mount.
FIND_REQUESTS = {"s3fs": 22150, "rclone": 38}
FIND_CASES = ("find-cold", "find-warm")


def expected(peer, latency_ms, case, metric, headline, whole):
    """The reference for a figure, or None. What depends on the number of files is known only for the whole dataset."""
    if case == "find-cold" and metric == "requests":
        return FIND_REQUESTS.get(peer) if whole else None
    if metric != headline or (case in FIND_CASES and not whole):
        return None
    return RATES.get((peer, 0 if peer == "native" else latency_ms), {}).get(case)


def rate(peer, latency_ms, case, otherwise):
    """What a plan may reckon with: of a case that is not known that of its like. A peer that is not known is taken to be as
    fast as rclone."""
    rates = RATES["native", 0] if peer == "native" else RATES.get((peer, 20 if latency_ms >= 5 else 0))
    if rates is None:
        rates = RATES["rclone", 20 if latency_ms >= 5 else 0]
    for like in (case, case.removesuffix("-disk"), case.removesuffix("-disk").replace("-warm", "-cold")):
        if like in rates:
            return rates[like]
    return otherwise
