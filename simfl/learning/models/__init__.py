"""Models: one file a family. torch is imported only when one is built."""
