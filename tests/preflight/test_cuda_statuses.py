"""What each status of CUDA means, under every name that libraries print for it.

Names and messages: driver_types.h, and cudaGetErrorString of CUDA 12.9 and 13.
"""

import pytest

from preflight.diagnosis.diagnose import diagnose
from preflight.diagnosis.signature_matcher import find_first_match
from tests.preflight.diagnosis_logs import LOGS

_STATUSES = [
    line.split("|") for line in (LOGS / "cuda_statuses.txt").read_text(encoding="utf-8").splitlines()
]
_REFERENCE = (
    "in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information."
)
_TRACEBACK = """\
Traceback (most recent call last):
  File "/home/ana/ft/train.py", line 9, in <module>
    step()
torch.AcceleratorError: CUDA error: words of a later release
"""


@pytest.mark.parametrize(("code", "name", "message"), _STATUSES, ids=[name for _, name, _ in _STATUSES])
def test_a_status_is_one_cause_under_its_name_and_its_message(code: str, name: str, message: str) -> None:
    texts = (
        f"RuntimeError: CUDA error: {message}",
        f"torch.AcceleratorError: CUDA error: {message}",
        f"RuntimeError: CUDA driver error: {message}",
        f"cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaError{name}: {message}",
        f"Search for `cudaError{name}' {_REFERENCE}",
    )
    assert [getattr(find_first_match(text), "code", None) for text in texts] == [code] * len(texts)


def test_the_line_that_names_a_status_decides_where_the_message_is_unknown() -> None:
    found = diagnose(f"{_TRACEBACK}Search for `cudaErrorIllegalAddress' {_REFERENCE}\n").causes[0]
    assert (found.code, found.location) == ("S38", "/home/ana/ft/train.py:9")
