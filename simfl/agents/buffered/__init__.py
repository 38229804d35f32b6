"""The asynchronous server with a buffer, and the jobs that it has under way."""
