"""S3-FIFO as its paper describes it (Yang et al., SOSP 2023), for objects of one size: what the tiers are compared with."""

import collections

SMALL_SHARE = 0.1
MOST_USES = 3


class S3Fifo:
    """A cache of `capacity` objects: a tenth of it for what is new, as many ghosts as the rest has objects."""

    def __init__(self, capacity):
        self.most_small = max(1, round(capacity * SMALL_SHARE))
        self.most_main = max(1, capacity - self.most_small)
        self.small, self.main, self.ghosts = (collections.OrderedDict() for _ in range(3))  # key: uses; oldest first

    def read(self, key):
        """Whether it was there; it is afterwards."""
        for queue in (self.small, self.main):
            if key in queue:
                queue[key] = min(MOST_USES, queue[key] + 1)
                return True
        known = self.ghosts.pop(key, None) is not None
        while len(self.small) + len(self.main) >= self.most_small + self.most_main:
            self._evict()
        (self.main if known else self.small)[key] = 0
        return False

    def _evict(self):
        if len(self.small) >= self.most_small or not self.main:
            self._evict_small()
        else:
            self._evict_main()

    def _evict_small(self):
        key, uses = self.small.popitem(last=False)
        if uses > 1:
            self.main[key] = 0
            if len(self.main) > self.most_main:
                self._evict_main()
            return
        self.ghosts[key] = 1
        if len(self.ghosts) > self.most_main:
            self.ghosts.popitem(last=False)

    def _evict_main(self):
        while True:
            key, uses = self.main.popitem(last=False)
            if uses == 0:
                return
            self.main[key] = uses - 1


def hit_ratio(capacity, reads, counted_from):
    """Of the reads from that place on."""
    cache, hits = S3Fifo(capacity), 0
    for number, key in enumerate(reads):
        hits += cache.read(key) and number >= counted_from
    return hits / (len(reads) - counted_from)
