"""The auditor: what the log of any real or simulated deployment gave away, to whom it happened, and from when on."""

from simfl.deployment.audit.audit_report import Exposure, Report, audit
from simfl.deployment.audit.log_columns import LogOptions
from simfl.deployment.audit.reading import Log, read

__all__ = ["Exposure", "Log", "LogOptions", "Report", "audit", "read"]
