"""What looks at real deployments, or drives them, from outside: one room each, by simfl's public face alone."""
