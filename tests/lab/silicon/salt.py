"""Makes the GPUs of one simulated host unlike those of any other: real ones share no UUID and no serial."""

import hashlib
import uuid
from dataclasses import replace

from tests.lab.silicon.profile import UUID_NAMESPACE, GpuProfile, Profile, Values


def salted(profile: Profile, salt: str) -> Profile:
    """The same profile with UUIDs and serials of its own for this salt.

    What real hosts share stays: board ids come from bus ids, and an NVLink domain has one cluster UUID.
    """
    return replace(profile, gpus=tuple(_salted_gpu(gpu, salt) for gpu in profile.gpus))


def _salted_gpu(gpu: GpuProfile, salt: str) -> GpuProfile:
    values: Values = {key: _salted_value(key, value, salt) for key, value in gpu.values.items()}
    return replace(gpu, values=values, migs=tuple(_salted_gpu(mig, salt) for mig in gpu.migs))


def _salted_value(key: str, value: str, salt: str) -> str:
    if key == "uuid" and value.startswith(("GPU-", "MIG-")):
        return f"{value[:4]}{uuid.uuid5(UUID_NAMESPACE, f'{salt}/{value}')}"
    if key == "serial" and value.isdigit():
        own = int(hashlib.sha256(f"{salt}/{value}".encode()).hexdigest(), 16) % 10 ** len(value)
        return str(own).zfill(len(value))
    return value
