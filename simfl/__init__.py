"""simfl: an agent-based discrete-event simulator of federated learning."""

__version__ = "0.1.0"
