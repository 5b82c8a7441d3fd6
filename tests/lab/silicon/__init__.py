"""Simulated silicon: a `libnvidia-ml.so.1` in the real ABI, fed by a GPU profile, and live compute processes.

`install(host, profile)` gives a host of `tests.lab` simulated GPUs; `stage(profile, directory)` lays the same
files out for a test without hosts, which then sets SILICON_STATE and LD_LIBRARY_PATH.
"""

from tests.lab.silicon.cli import main
from tests.lab.silicon.hosts import install, update
from tests.lab.silicon.profile import Profile, ProfileError, load_profile, profile_names
from tests.lab.silicon.state import stage, write_state

__all__ = [
    "Profile",
    "ProfileError",
    "install",
    "load_profile",
    "main",
    "profile_names",
    "stage",
    "update",
    "write_state",
]
