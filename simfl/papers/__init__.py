"""What belongs to one reproduction only, a room each; its plugins are found by entry points, as a stranger's are."""
