"""The schema of the state store and how it came about."""
