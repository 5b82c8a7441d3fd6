"""SSH: configuration, authentication, host keys and channels."""
