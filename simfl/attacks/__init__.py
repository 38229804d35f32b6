"""Observers of what an aggregator sees."""

from simfl.attacks.base import OBSERVERS, CoalitionView, Curve, Finding, Observer, Picture, ServerView, TrueUpdates

__all__ = ["OBSERVERS", "CoalitionView", "Curve", "Finding", "Observer", "Picture", "ServerView", "TrueUpdates"]
