"""What nvidia-smi prints of GPUs. `preflight/smi_reports` reads saved recordings with the same functions."""
