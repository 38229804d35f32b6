"""What sums with or without Gaussian noise tell of one client, in units of the noise (docs/explanation/ledger.md)."""
