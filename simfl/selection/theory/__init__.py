"""What is known of a policy before the first round."""
