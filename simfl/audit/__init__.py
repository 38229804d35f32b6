"""The auditor: what the log of any real or simulated deployment gave away, to whom it happened, and from when on."""

from simfl.audit.exposure import Exposure
from simfl.audit.reading import Log, read
from simfl.audit.report import Report, audit

__all__ = ["Exposure", "Log", "Report", "audit", "read"]
