"""Lottery tickets: LotteryFL and FedLTN, whose clients keep and send a part of the weights only."""
