"""A word means a run that this machine launched, also where its host does not show it: never another."""

from dataclasses import replace

import pytest

from launcher.config.inventory import HostEntry
from launcher.errors import ConnectionTimedOut, GpulaunchError, HostError, HostsUnusable, RunNotKept
from launcher.planning.run_record import RunRecord
from launcher.runs.expected_run import ExpectedRun, find_expected
from launcher.runs.last_run import SearchScope
from launcher.runs.search import SearchResult, choose_run
from preflight.errors import BadInput
from tests.launcher.found_runs import A, found, launched_by, node_run
from tests.launcher.run_plans import plan, run_id

OLD, NEW, OTHER = "r1-20261122-104500-0a1b2c", "r1-20261123-104500-0a1b2d", "x-20261124-104500-0a1b2e"
SILENT = {"b": ConnectionTimedOut("b", "no answer", "is it up?")}


def launch(run_id: str, *hosts: HostEntry, job: str = "job") -> RunRecord:
    return RunRecord(replace(plan((None,)), run_id=run_id, job_name=job), hosts, "ana@laptop", 1.0)


def absence(
    word: str,
    hosts: tuple[HostEntry, ...],
    *,
    shown: tuple[str, ...] = (),
    errors: dict[str, HostError] | None = None,
    live_wanted: bool = False,
) -> GpulaunchError | None:
    runs = tuple(run for run_id in shown for run in found((A, [{**node_run(), "run_id": run_id}])))
    expected = ExpectedRun(word, launch(NEW, *hosts), live_wanted)
    return expected.explain_absence(runs, runs[-1] if runs else None, ["a", "b"], errors or {})


B = HostEntry("b", address="10.0.0.2")


@pytest.mark.parametrize("shown", [(), (OLD,)])
@pytest.mark.parametrize("live_wanted", [False, True])
def test_a_run_whose_host_is_silent_is_not_taken_for_an_older_one(
    shown: tuple[str, ...], *, live_wanted: bool
) -> None:
    refusal = absence("r1", (B,), shown=shown, errors=dict(SILENT), live_wanted=live_wanted)
    assert isinstance(refusal, HostsUnusable)
    assert refusal.message == f"r1, {NEW}, is on b, which was not reached: no answer"
    assert (refusal.hosts, refusal.fix) == (("b",), "is it up?")


def test_a_host_that_answers_without_the_run_has_lost_it() -> None:
    refusal = absence(NEW, (B,), shown=(OLD,))
    assert isinstance(refusal, RunNotKept)
    assert refusal.message.startswith(f"b answers and has nothing of {NEW}; ")
    both = absence("last", (A, B))
    assert both is not None
    assert both.message.startswith(f"last is {NEW}: a,b answer and have nothing of {NEW}; ")


@pytest.mark.parametrize(
    ("hosts", "shown", "errors", "live_wanted"),
    [
        ((B,), (NEW,), SILENT, False),  # another of its hosts has answered
        ((B,), (OTHER,), SILENT, False),  # something newer that the word means
        ((B,), (OLD,), {}, True),  # what is lost does not live
        ((HostEntry("c"),), (OLD,), {}, False),  # its host was not asked
    ],
)
def test_what_was_found_is_what_the_word_means(
    hosts: tuple[HostEntry, ...], shown: tuple[str, ...], errors: dict[str, HostError], *, live_wanted: bool
) -> None:
    assert absence("r1", hosts, shown=shown, errors=errors, live_wanted=live_wanted) is None


def test_the_newest_launch_of_this_directory_is_expected_before_any_other() -> None:
    records = {OLD: launch(OLD, A), NEW: launch(NEW, B), OTHER: launch(OTHER, B, job="x")}

    def expected(word: str, scope: SearchScope) -> str | None:
        run = find_expected(word, scope, records, live_wanted=False)
        return None if run is None else run.run_id

    here = SearchScope(frozenset({OLD, NEW}), frozenset(), "ana")
    assert expected("last", here) == expected("r1", here) == NEW
    assert expected(OLD, here) == OLD
    assert expected("last", SearchScope(frozenset(), frozenset(), "ana")) == OTHER
    assert expected("last", SearchScope(frozenset({OLD}), frozenset({"x"}), "ana")) == OTHER
    assert expected("0a1b2e", here) == OTHER
    assert expected("y", here) is None
    apart = SearchScope(frozenset({OLD}), frozenset({"x"}), "ana", frozenset({OTHER}))
    assert expected("last", apart) == OLD  # OTHER is of a config of the same name in another project
    longer = OTHER.replace(OTHER[: OTHER.index("-")], "r1x")
    records[longer] = launch(longer, B)
    assert expected("r1", SearchScope(frozenset({longer}), frozenset(), "ana")) != longer  # a whole name wins


def test_a_run_that_may_be_on_a_silent_host_is_no_mistake_of_the_command_line() -> None:
    nothing = SearchResult((), SILENT, {}, {})
    with pytest.raises(HostsUnusable) as failure:
        choose_run("r1", [A, B], nothing)
    assert failure.value.message.splitlines() == [
        'no run called "r1" was found on a, and others did not answer',
        "b: no answer",
        "  fix: is it up?",
    ]
    with pytest.raises(BadInput, match=r"was found on a,b$"):
        choose_run("r1", [A, B], SearchResult((), {}, {}, {}))


def test_last_is_no_run_of_a_config_of_the_same_name_that_was_launched_in_another_project() -> None:
    first, second = launched_by("ana@x", "train-1", 10.0), launched_by("ana@x", "train-2", 20.0)
    runs = tuple(replace(run, from_here=True) for run in found((A, [first, second])))
    scope = SearchScope(frozenset({run_id("train-1")}), frozenset({"train"}), "ana")
    assert scope.find_last(runs).run_id == run_id("train-2")  # from another laptop, say
    apart = replace(scope, elsewhere=frozenset({run_id("train-2")}))
    assert apart.find_last(runs).run_id == run_id("train-1")
    third = launched_by("ana@x", "train-3", 30.0)  # its host has started it again
    third["spec"]["restart"] = {"after": run_id("train-2")}
    second["next"] = {"state": "restarted", "run_id": run_id("train-3")}
    again = found((A, [first, second, third]))
    assert (scope.find_last(again).run_id, apart.find_last(again).run_id) == (
        run_id("train-3"),
        run_id("train-1"),
    )
