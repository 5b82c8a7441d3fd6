"""What a job says of a host: each rule on both sides."""

import pytest

from preflight.facts.xid_table import XIDS
from preflight.job import CommandRequest, Expect, GpuRequest, Job


@pytest.mark.parametrize(
    ("per_host", "host_gpus", "wanted"),
    [
        (None, {}, None),
        (4, {}, 4),
        (None, {"a": (1, 3)}, 2),
        (1, {"a": (1, 3)}, 1),
        (None, {"b": (1, 3)}, None),
        ({"a": 3}, {}, 3),
        ({"b": 3}, {}, None),
        ({"b": 3}, {"a": (1, 3)}, None),
    ],
)
def test_a_host_has_the_ranks_that_the_command_names(
    per_host: int | dict[str, int] | None, host_gpus: dict[str, tuple[int, ...]], wanted: int | None
) -> None:
    assert CommandRequest(ranks_per_host=per_host, host_gpus=host_gpus).ranks_wanted("a") == wanted


def test_xids_are_of_the_gpu_or_of_a_program_as_nvidias_catalogue_says() -> None:
    fatal = {46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, 158}
    program = {11, 13, 25, 31, 43, 45, 69, 137}
    assert set(Expect().fatal_xids) == fatal <= XIDS.keys()
    assert set(Expect().program_xids) == program <= XIDS.keys()


@pytest.mark.parametrize(
    ("include", "exclude", "left"),
    [
        ({}, {}, (0, 1, 2)),
        ({"a": (1, 2)}, {}, (1, 2)),
        ({"b": (1, 2)}, {}, (0, 1, 2)),
        ({}, {"a": (0,)}, (1, 2)),
        ({}, {"b": (0,)}, (0, 1, 2)),
        ({"a": (1, 2)}, {"a": (2,)}, (1,)),
        ({"a": ()}, {}, ()),
    ],
)
def test_filters_of_a_host_leave_some_of_its_gpus(
    include: dict[str, tuple[int, ...]], exclude: dict[str, tuple[int, ...]], left: tuple[int, ...]
) -> None:
    command = CommandRequest(host_gpus=include, exclude_gpus=exclude)
    assert tuple(index for index in range(3) if command.passes_filters("a", index)) == left


def test_a_field_is_called_as_it_was_typed() -> None:
    command = CommandRequest(spelled={"gpus": "--gpu_ids"})
    assert (command.option("gpus", "gpus:"), command.option("env", "env:")) == ("--gpu_ids", "env:")


@pytest.mark.parametrize(
    ("per_host", "ranks"), [(None, 1), (0, 1), (1, 1), (3, 3), ({"a": 2}, 2), ({"b": 2}, 0), ({}, 0)]
)
def test_ranks_on_the_cpu_are_one_or_as_many_as_asked(
    per_host: int | dict[str, int] | None, ranks: int
) -> None:
    assert Job(processes_per_host=per_host).cpu_ranks("a") == ranks


@pytest.mark.parametrize(
    ("workdir", "subdirectory", "own", "directory"),
    [
        ("", "", "", ""),
        ("", "", "/w", "/w"),
        ("/j", "", "/w", "/j"),
        ("", "sub", "", "~/sub"),
        ("", "sub", "/w", "/w/sub"),
        ("/j", "sub", "/w", "/j/sub"),
        ("/j", "/abs", "/w", "/abs"),
    ],
)
def test_ranks_start_in_the_jobs_directory_or_the_hosts(
    workdir: str, subdirectory: str, own: str, directory: str
) -> None:
    assert Job(workdir=workdir, subdirectory=subdirectory).directory_in(own) == directory


@pytest.mark.parametrize(
    ("script", "subdirectory", "path"),
    [("", "sub", ""), ("a.py", "", "a.py"), ("a.py", "sub", "sub/a.py"), ("../a.py", "sub", "a.py")],
)
def test_the_script_lies_in_the_tree(script: str, subdirectory: str, path: str) -> None:
    assert Job(script=script, subdirectory=subdirectory).script_in_tree == path


@pytest.mark.parametrize(
    ("output", "path"), [("", ""), ("out", "/w/out"), ("/data/out", "/data/out"), ("~/out", "~/out")]
)
def test_output_is_below_the_working_directory_or_where_it_says(output: str, path: str) -> None:
    assert Job(output=output).output_in("/w") == path


@pytest.mark.parametrize(
    ("gpus", "wanted"), [("all", True), ("auto", True), ("none", False), (2, True), ((0, 1), True)]
)
def test_a_job_wants_gpus_unless_it_says_none(gpus: GpuRequest, *, wanted: bool) -> None:
    assert Job(gpus=gpus).wants_gpus is wanted
