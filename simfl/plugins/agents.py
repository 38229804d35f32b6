"""Agents of clients."""

from simfl.clients.client_agents import CLIENT_AGENTS, ClientAgent, Node, Request, Update

__all__ = [
    "CLIENT_AGENTS",
    "ClientAgent",
    "Node",
    "Request",
    "Update",
]
