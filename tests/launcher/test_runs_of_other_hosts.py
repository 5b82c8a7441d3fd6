"""Runs of other hosts that hosts with a shared home tell of: named where nobody has asked their own host."""

from pathlib import Path
from typing import Any, Self

import pytest

from launcher.config.inventory import HostEntry
from launcher.follow import protocol
from launcher.rundir.state_schema import validate_runs
from launcher.runs import search
from launcher.runs.render import encode_runs
from launcher.runs.search import find_runs_of_other_hosts
from preflight.errors import BadInput

RUN = "train-20261122-110000-abcdef"
OTHER = "train-20261122-120000-abcdef"


def answer(host: str, elsewhere: dict[str, list[str]]) -> dict[str, Any]:
    return {"runs": [], "host": host, "t": 1.0, "user": "ana", "other_hosts": elsewhere}


def test_runs_are_elsewhere_while_their_own_host_has_not_answered() -> None:
    one = answer("gpu-01", {"gpu-02": [RUN], "gpu-03": [OTHER, RUN]})
    assert find_runs_of_other_hosts([one]) == {"gpu-02": (RUN,), "gpu-03": (RUN, OTHER)}
    assert find_runs_of_other_hosts([one, answer("gpu-02", {"gpu-01": [RUN]})]) == {"gpu-03": (RUN, OTHER)}


def test_a_host_that_names_itself_means_a_container_or_a_namesake() -> None:
    (name,) = find_runs_of_other_hosts([answer("gpu-01", {"gpu-01": [RUN]})])
    assert name == "gpu-01 (a container, or another host of this name)"


def test_what_is_no_run_is_not_told_and_an_odd_answer_is_that_hosts_problem() -> None:
    assert find_runs_of_other_hosts([answer("gpu-01", {"gpu-02": ["../../x", "r1"]})]) == {}
    assert find_runs_of_other_hosts([{"runs": []}]) == {}
    for odd in ([RUN], {"gpu-02": RUN}, {"gpu-02": [1]}, {"gpu-02": {RUN: 1}}):
        runs, problem = validate_runs({**answer("gpu-01", {}), "other_hosts": odd})
        assert (runs, "other_hosts" in problem) == ({"runs": []}, True)


def test_a_run_that_is_not_found_is_said_to_be_anothers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Connection:
        name = "gpu-01"

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    said = answer("gpu-01", {"gpu-02": [RUN]})
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(search, "send_request", lambda *_, **__: dict(said))
    entry = HostEntry("a", python=protocol.__name__)
    with pytest.raises(BadInput) as failure:
        search.find_in_runs("train", [entry], lambda _: Connection(), width=1, warn=print)  # type: ignore[arg-type,return-value]
    assert failure.value.message == (
        'no run called "train" of its own was found on a; one is in its home, of gpu-02'
    )
    assert "--hosts" in failure.value.fix
    document = encode_runs([], {}, {}, find_runs_of_other_hosts([said]))
    assert document["other_hosts"] == {"gpu-02": [RUN]}
