"""The working tree, sent to the hosts before a launch."""
