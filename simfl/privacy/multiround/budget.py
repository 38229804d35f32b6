"""A budget of work, never of seconds: an answer may not depend on how fast the machine is."""

from dataclasses import dataclass

BUDGET = 5_000_000_000
"""Default budget of one stage, in modular multiplications or what costs as much: some ten seconds."""


@dataclass
class Budget:
    """Counts work against a limit."""

    limit: int
    spent: int = 0

    def affords(self, work: float | int) -> bool:
        """Whether this much more work would stay within the limit."""
        return self.spent + work <= self.limit

    def take(self, work: float | int) -> bool:
        """Books the work if it is affordable and says whether it was."""
        if not self.affords(work):
            return False
        self.spent += int(work)
        return True
