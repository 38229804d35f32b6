"""How long messages take: one file per kind of network. networkx is imported only when a graph is built."""
