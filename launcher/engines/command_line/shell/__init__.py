"""Shell text as a POSIX shell reads it: words, variables, conditions, loops, files. Pure."""
