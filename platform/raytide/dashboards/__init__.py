"""Dashboards for Grafana, as files."""
