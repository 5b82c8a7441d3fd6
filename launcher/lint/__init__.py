"""`gpulaunch lint`: its findings as text, JSON and SARIF, its pages, and `--fix` with LibCST."""
