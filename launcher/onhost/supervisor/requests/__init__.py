"""Request handlers of the process at a client's end of the connection, one module each."""
