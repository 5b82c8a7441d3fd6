"""What runs on a machine with a real NVIDIA GPU: `make test-gpu`. docs/hardware/README.md describes it.

No part of the ordinary suite, which tests the logic of this one (`tests/gpu/test_*.py`) on simulated boards.
"""
