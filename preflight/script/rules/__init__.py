"""The rules of `gpulaunch lint`."""
