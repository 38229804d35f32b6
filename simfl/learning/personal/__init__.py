"""Ways to personal models: one file each."""

from simfl.learning.personal import ditto, fedbn, fedltn, fine_tune, jump_start, local, lotteryfl, private_layers

__all__ = ["ditto", "fedbn", "fedltn", "fine_tune", "jump_start", "local", "lotteryfl", "private_layers"]
