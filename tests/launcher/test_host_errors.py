"""Failures of several hosts are folded into one message and one fix."""

import pytest

from launcher.errors import ConnectionRefused, GpulaunchError, NameNotResolved, PythonNotFound, SyncFailed
from launcher.host_checks.host_errors import fold_errors


def at_host(host: str, message: str) -> SyncFailed:
    failure = SyncFailed(f"{host}: {message}")
    failure.hosts = (host,)
    return failure


@pytest.mark.parametrize(
    ("errors", "message", "fix"),
    [
        ([ConnectionRefused(f"n{i}", f"192.0.2.{i} refuses", "sshd?") for i in (1, 2)],
         "n[1-2]: 192.0.2.[1-2] refuses", "sshd?"),
        ([PythonNotFound(f"n{i}", "no such file", f"gpulaunch init -i h.yaml --hosts n{i}") for i in (1, 2)],
         "n[1-2]: no such file", "gpulaunch init -i h.yaml --hosts 'n[1-2]'"),
        ([ConnectionRefused("n1", "refuses", "sshd?"), NameNotResolved("n2", "no address", "spelling?")],
         "n1: refuses\nn2: no address", "n1: sshd?\nn2: spelling?"),
        ([at_host("n1", "/x: File exists"), at_host("n2", "/x: File exists")], "n[1-2]: /x: File exists", ""),
        ([SyncFailed("a.py changed", "run it again")] * 2, "a.py changed", "run it again"),
    ],
)  # fmt: skip
def test_hosts_that_failed_alike_are_one_line_and_every_fix_is_there(
    errors: list[GpulaunchError], message: str, fix: str
) -> None:
    assert fold_errors(errors) == (message, fix)
