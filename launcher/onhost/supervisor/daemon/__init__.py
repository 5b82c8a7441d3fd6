"""Processes that outlive the connection: the guardian, the supervisor, and the supervisor's parts."""
