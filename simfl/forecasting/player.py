"""A process that plays parts of a forecast, ``python -m simfl.forecasting.player``; its input says which."""

import json
import pickle
import sys
from pathlib import Path

from simfl.forecasting.parts import PartStore, PartTask, play_part


def main() -> None:
    """Plays the tasks one by one, and prints each that is ready."""
    folder, key, tasks = json.load(sys.stdin)
    place = PartStore(Path(folder), key)
    plan = pickle.loads(place.plan_file.read_bytes())  # noqa: S301  (its parent process has just written it)
    for task in (PartTask(*numbers) for numbers in tasks):
        place.store(task, play_part(plan, task))
        print(*task, flush=True)


if __name__ == "__main__":
    main()
