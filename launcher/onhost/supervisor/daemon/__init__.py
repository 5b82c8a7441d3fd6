"""What outlives the connection: the guardian, the supervisor, and what each part of the supervisor minds."""
