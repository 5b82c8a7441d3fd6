"""Decisions of a launch: GPUs, ranks, precision and script arguments."""
