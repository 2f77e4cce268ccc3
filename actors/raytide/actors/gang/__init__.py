"""Rigid jobs: processes that start and end together, with an entry point that knows nothing of raytide."""
