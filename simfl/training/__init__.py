"""How updates become the next global model: one file per rule."""
