"""How units of clients are laid out and drawn."""
