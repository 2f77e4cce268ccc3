"""The trace-driven simulator, and the traces it is driven by: neither Ray nor torch."""
