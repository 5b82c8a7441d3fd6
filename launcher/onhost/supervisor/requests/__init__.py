"""What the process at a client's end of the connection does: one module for each thing that is asked."""
