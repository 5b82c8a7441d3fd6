"""`gpulaunch lint`: its findings as text, JSON and SARIF, and `--fix` with LibCST."""
