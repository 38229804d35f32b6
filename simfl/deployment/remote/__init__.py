"""Runs some of whose clients are processes of their own, which ask over HTTP for their jobs (``simfl serve``)."""
