"""Results in other programs' formats: Parquet and TensorBoard, each an extra."""
