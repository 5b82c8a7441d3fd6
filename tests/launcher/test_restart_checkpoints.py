"""From which checkpoint a run goes on, by what each host sees; told and kept."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from launcher.config.inventory import HostEntry
from launcher.config.restart_options import RestartOptions
from launcher.report.restarts import encode_restart_policy, render_restart_policy
from launcher.restart.checkpoints import Checkpoint, checkpoint_dir, choose_checkpoint, resume_args
from preflight.job import Job

SPEC = RestartOptions(resume_args=("--resume", "{checkpoint}", "--from={checkpoint}"))
C40 = Checkpoint("checkpoint-40", 40, complete=True, path_on_host="/home/ada/x/checkpoint-40")
C20 = Checkpoint("checkpoint-20", 20, complete=True)
CUT = Checkpoint("checkpoint-60", 60, complete=False, why="model.safetensors is cut off")


def test_the_last_whole_one_is_taken_and_the_others_are_named() -> None:
    seen: dict[str, Sequence[Checkpoint]] = {"a": (CUT, C40, C20), "b": (CUT, C40, C20)}
    chosen = choose_checkpoint(seen, "a", SPEC)
    assert chosen.checkpoint == C40
    assert chosen.notes == ("checkpoint-60 on a model.safetensors is cut off: not used",)


def test_every_host_must_have_it_whole() -> None:
    chosen = choose_checkpoint({"a": (C40, C20), "b": (C20,)}, "a", SPEC)
    assert chosen.checkpoint == C20
    assert chosen.notes == ("checkpoint-40 is not whole on b: not used",)


def test_many_that_are_not_used_are_one_line_with_the_newest_and_their_count() -> None:
    cut = [replace(CUT, path=f"checkpoint-{step}", step=step) for step in range(79, 59, -1)]
    chosen = choose_checkpoint({"a": (*cut, C40, C20), "b": (C20,)}, "a", SPEC)
    assert chosen.checkpoint == C20
    (line,) = chosen.render_notes()
    assert line.startswith("checkpoint-79 on a model.safetensors is cut off: not used, nor are 20 others")
    assert chosen.render_notes(verbose=True) == chosen.notes
    assert len(chosen.notes) == 21
    assert chosen.notes[-1] == "checkpoint-40 is not whole on b: not used"


def test_one_that_only_the_main_host_has_is_refused_unless_that_is_enough() -> None:
    refused = choose_checkpoint({"a": (C40,), "b": (), "c": ()}, "a", SPEC).refused
    assert refused.startswith("checkpoint-40 is on a and not on b, c, whose ranks could not load it")
    assert "checkpoint_on: main" in refused
    main = RestartOptions(resume_args=SPEC.resume_args, checkpoint_on="main")
    assert choose_checkpoint({"a": (C40,)}, "a", main).checkpoint == C40


def test_without_any_it_begins_from_the_start() -> None:
    chosen = choose_checkpoint({"a": (), "b": ()}, "a", SPEC)
    assert (chosen.checkpoint, chosen.refused, chosen.step) == (None, "", -1)


def test_without_any_and_without_the_host_that_may_hold_them_nothing_is_begun_anew() -> None:
    refused = choose_checkpoint({"b": ()}, "b", SPEC, main_is_new=True).refused
    assert refused.startswith("b sees no checkpoint of this run, and the host that rank 0 was on is gone")


def test_a_script_that_resumes_by_itself_is_not_refused() -> None:
    spec = RestartOptions()
    assert choose_checkpoint({"b": ()}, "b", spec, main_is_new=True).refused == ""
    assert choose_checkpoint({"a": (C40,)}, "a", spec).checkpoint == C40


@pytest.mark.parametrize(
    ("output", "path"),
    [
        ("out/x", "out/x/checkpoint-40"),
        ("", "checkpoint-40"),
        ("/data/x", "/data/x/checkpoint-40"),
        ("~/x", C40.path_on_host),
    ],
)
def test_the_script_is_told_where_it_lies(output: str, path: str) -> None:
    job = Job(args=("--lr", "1"), output=output)
    assert resume_args(job, SPEC, C40) == ("--lr", "1", "--resume", path, f"--from={path}")
    assert resume_args(job, SPEC, None) == ("--lr", "1")
    assert resume_args(job, RestartOptions(), C40) == ("--lr", "1")


@pytest.mark.parametrize(
    ("job", "entry", "base"),
    [
        (Job(output="out"), HostEntry("a", workdir="~/p"), "~/p/out"),
        (Job(workdir="/w"), HostEntry("a", workdir="~/p"), "/w"),
        (Job(), HostEntry("a"), "~"),
        (Job(output="~/o"), HostEntry("a", workdir="/w"), "~/o"),
        (Job(output="/o"), HostEntry("a", workdir="~/p"), "/o"),
    ],
)
def test_they_are_looked_for_where_the_script_writes(job: Job, entry: HostEntry, base: str) -> None:
    assert checkpoint_dir(entry, job) == base


def test_secrets_in_the_arguments_of_a_restart_are_not_shown_unless_asked_for() -> None:
    spec = RestartOptions(resume_args=("--hub_token", "s3cret", "--resume={checkpoint}"))
    assert "  with --hub_token *** --resume={checkpoint} for" in "\n".join(render_restart_policy(spec, ()))
    assert encode_restart_policy(spec, ())["resume_args"] == ["--hub_token", "***", "--resume={checkpoint}"]
    assert "s3cret" in "".join(render_restart_policy(spec, (), show_secrets=True))
    assert encode_restart_policy(spec, (), show_secrets=True)["resume_args"] == list(spec.resume_args)
