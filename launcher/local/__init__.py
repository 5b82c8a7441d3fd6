"""Home directories, safe paths, whole-file writes and the user of this machine."""
