"""The simulated library is compiled once per content, and only with what its driver had."""

import ctypes
from pathlib import Path

import pytest

from tests.lab.silicon.build import library

pytestmark = pytest.mark.slow


def test_the_same_content_is_compiled_once(tmp_path: Path) -> None:
    first = library(cache=tmp_path)
    made = first.stat().st_mtime_ns
    assert library(cache=tmp_path) == first
    assert first.stat().st_mtime_ns == made


def test_a_driver_that_lacks_a_function_has_a_library_of_its_own(tmp_path: Path) -> None:
    whole = library(cache=tmp_path)
    lacking = library(["nvmlDeviceGetMigMode"], cache=tmp_path)
    assert lacking != whole
    assert hasattr(ctypes.CDLL(str(whole)), "nvmlDeviceGetMigMode")
    assert not hasattr(ctypes.CDLL(str(lacking)), "nvmlDeviceGetMigMode")
    assert hasattr(ctypes.CDLL(str(lacking)), "nvmlDeviceGetName")


def test_only_nvmls_own_names_are_exported(tmp_path: Path) -> None:
    loaded = ctypes.CDLL(str(library(cache=tmp_path)))
    assert not any(hasattr(loaded, name) for name in ("state_load", "lookup", "processes_on"))
