"""A clock on which no real second passes."""


class FakeClock:
    """Time passes when somebody sleeps, by a little more than asked for, as real sleeps do."""

    def __init__(self, now_s: float = 1000.0, overshoot_s: float = 0.0) -> None:
        self.time_s, self.overshoot_s, self.slept = now_s, overshoot_s, []

    def now_s(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            self.slept.append(seconds)
            self.time_s += seconds + self.overshoot_s
