"""How updates are added up without showing them: one file per protocol."""
