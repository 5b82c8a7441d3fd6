"""Files of tasks (Makefile, justfile, package.json, pyproject.toml ...), and the launches in them. Pure."""
