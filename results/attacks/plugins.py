"""What the table of attacks needs besides simfl: clients of one sample."""

from dataclasses import dataclass

import numpy as np

from simfl.plugins.learning import PARTITIONS, Split


@PARTITIONS("few")
@dataclass(frozen=True)
class Few:
    """The first ``alone`` clients hold one sample each, every other one ``each`` samples of two classes of its own."""

    alone: int = 4
    each: int = 60

    def split(self, data, clients, rng):
        by_class = [rng.permutation(np.flatnonzero(data.y_train == label)).tolist() for label in range(data.classes)]
        parts = [[by_class[client % data.classes].pop()] for client in range(self.alone)]
        for _ in range(clients - self.alone):
            one, other = rng.choice(data.classes, 2, replace=False)
            half = self.each // 2
            parts.append([by_class[one].pop() for _ in range(min(half, len(by_class[one])))])
            parts[-1] += [by_class[other].pop() for _ in range(min(half, len(by_class[other])))]
        return Split.of([np.array(part, dtype=np.int64) for part in parts])
