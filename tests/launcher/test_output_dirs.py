"""The end of a run names where its output lies and what copies it to this machine."""

from dataclasses import replace

import pytest

from launcher.report.outcome import encode_outcome, find_output_dirs, render_outcome, render_output_dirs
from tests.launcher.run_events import GOOD, over
from tests.launcher.run_plans import RUN_ID

FETCH = f"gpulaunch fetch {RUN_ID}"


@pytest.mark.parametrize(
    ("hosts", "output", "cwd", "lines"),
    [
        (("a", "b"), "~/out", "~/p", ["output: ~/out on a,b", f"to copy it to this machine: {FETCH}"]),
        (("a", "b"), "", "~/p", [f"to copy what the script wrote in ~/p on a,b: {FETCH} --path PATH"]),
        (("a", "b"), "", "", [f"to copy what the script wrote in ~ on a,b: {FETCH} --path PATH"]),
        (("localhost",), "/out", "", ["output: /out"]),
        (("localhost",), "", "", []),
        (("a",), "{run_dir}/o", "", ["output: /runs/a/o on a", f"to copy it to this machine: {FETCH}"]),
    ],
)
def test_the_end_says_where_the_output_is(
    hosts: tuple[str, ...], output: str, cwd: str, lines: list[str]
) -> None:
    outcome = over(*GOOD)
    first = outcome.plan.nodes[0]
    nodes = tuple(replace(first, host=host, output_dir=output, cwd=cwd) for host in hosts)
    dirs = {host: f"/runs/{host}" for host in hosts}
    outcome = replace(outcome, plan=replace(outcome.plan, nodes=nodes), run_dirs=dirs)
    assert list(render_output_dirs(outcome)) == lines
    in_job = list(
        render_output_dirs(replace(outcome, slurm_job="17"))
    )  # whose nodes no command reaches any more
    assert in_job == [line for line in lines if "gpulaunch fetch" not in line]
    assert set(lines) <= set(render_outcome(outcome))
    assert list(render_output_dirs(replace(outcome, run_dirs={}))) == []  # no host could start it
    assert encode_outcome(outcome)["output_dirs"] == find_output_dirs(outcome)
    assert set(find_output_dirs(outcome)) == (set(hosts) if output else set())


def test_of_a_run_that_was_found_on_its_hosts_no_directory_is_named() -> None:
    outcome = over(*GOOD)
    nodes = (
        replace(outcome.plan.nodes[0], host="a", output_dir="", cwd="", argv=()),
    )  # as its record has it
    outcome = replace(outcome, plan=replace(outcome.plan, nodes=nodes))
    assert list(render_output_dirs(outcome)) == [
        f"to copy what the script wrote on a: {FETCH} (--path PATH if its config names no output)"
    ]
