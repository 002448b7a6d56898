"""Backends, measurement protocol, inference, campaigns and the command line."""
