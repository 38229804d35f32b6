"""How large random searches are: a part in everyday runs, the whole in the nightly checks of ``tests/reliability``."""

import os

WHOLE_SEARCHES = "SIMFL_WHOLE_SEARCHES"
"""An environment variable; where it is set, searches are as large as they can be."""


def repeats(everyday: int, whole: int) -> int:
    """How often a random case is drawn."""
    return whole if os.environ.get(WHOLE_SEARCHES) else everyday
