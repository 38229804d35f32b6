"""What is wrong in a scenario, in plain words."""
