"""The HTTP server of ``serve`` and ``watch``, and which hosts may be spoken to."""
