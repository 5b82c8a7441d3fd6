"""GPUs through what nvidia-smi prints. `preflight/smi` reads saved recordings with the same functions."""
