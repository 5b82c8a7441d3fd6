"""`gpulaunch top`: all GPUs of all hosts as they are now, on one screen, as JSON and for Prometheus."""
