"""What is done to data once they are loaded, perhaps otherwise to the test part: one file a transform."""
