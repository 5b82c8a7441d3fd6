"""GPUs through NVML, the driver's own library, by the pynvml that came with the request."""
