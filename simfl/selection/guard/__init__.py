"""What a guarded selection knows of the rows so far: their span, and proofs that it keeps a multi-round guarantee."""
