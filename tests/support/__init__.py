"""Builders, harnesses and loops that several tests share."""
