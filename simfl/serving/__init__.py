"""Runs some of whose clients are processes of their own, which ask over HTTP for their jobs (``simfl serve``)."""

from simfl.serving.serve import serve

__all__ = ["serve"]
