"""Files of tasks (Makefile, justfile, package.json, Dockerfile ...), and the launches in them. Pure."""
