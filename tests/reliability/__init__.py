"""The twelve reliability bars, a file each; ``benchmarks/reliability.py`` plays them."""
