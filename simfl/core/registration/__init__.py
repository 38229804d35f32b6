"""Plugins: what each is, how it is registered, where it comes from, and whose an error is."""
