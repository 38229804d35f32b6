"""Agents of clients."""

from simfl.clients.client_agents import CLIENT_AGENTS, AttackView, ClientAgent, Node, Request, Update

__all__ = ["AttackView", "CLIENT_AGENTS", "ClientAgent", "Node", "Request", "Update"]
