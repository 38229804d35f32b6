"""Machines that know none of the rules of certificates: they drive plugins with chosen updates and measure what comes
out, strip plugins of what they declare, and enumerate the laws of tiny mechanisms.
"""
