"""Processes that dead runs left on hosts: selected, ended, reported."""
