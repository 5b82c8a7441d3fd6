"""What Ctrl-C and SIGTERM mean in the pause before a restart, by how the client follows the run."""

import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from launcher.config.inventory import HostEntry
from launcher.launch.attempt import Attempt
from launcher.launch.request import FollowOptions, LaunchRequest
from launcher.launch.signals import CTRL_C, InterruptChoice, choose_detach, choose_stop
from launcher.remote.connection_pool import ConnectionPool
from launcher.restart.pause_signals import choose_interrupt, describe_ctrl_c, stops_run
from launcher.rundir.run_id import make_run_id
from launcher.terminal.screen import Screen
from preflight.job import Job
from tests.lab.fault_client import plain_plan

RUN, RUN_ASKS = FollowOptions(), FollowOptions(choose=lambda: "stay")
ATTACH = FollowOptions(choose=choose_detach, unasked="detach")
ATTACH_ASKS = FollowOptions(choose=lambda: "detach", unasked="detach")
STOP_ON_EXIT = FollowOptions(choose=choose_stop, unasked="detach")


@pytest.mark.parametrize(
    ("follow", "ctrl_c", "sigterm", "words"),
    [
        (RUN, "stop", "stop", "leaves it ended"),
        (RUN_ASKS, "stay", "stop", "asks: stop, detach or stay"),
        (ATTACH, "detach", "detach", "leaves that to others"),
        (ATTACH_ASKS, "detach", "detach", "asks: stop, detach or stay"),
        (STOP_ON_EXIT, "stop", "detach", "leaves it ended"),
    ],
)
def test_a_signal_means_in_the_pause_what_it_means_while_the_run_is_followed(
    follow: FollowOptions, ctrl_c: InterruptChoice, sigterm: InterruptChoice, words: str
) -> None:
    by_hand, by_signal = KeyboardInterrupt(), KeyboardInterrupt("SIGTERM")
    assert (
        choose_interrupt(by_hand, follow, is_kept=True),
        choose_interrupt(by_signal, follow, is_kept=True),
    ) == (ctrl_c, sigterm)
    assert describe_ctrl_c(follow, is_kept=True) == words
    assert stops_run(by_signal, follow) == (sigterm == "stop")
    assert not stops_run(OSError(), follow)


def test_a_run_that_no_host_keeps_is_ended_by_leaving_it() -> None:
    assert choose_interrupt(KeyboardInterrupt("SIGTERM"), ATTACH, is_kept=False) == "stop"
    assert choose_interrupt(KeyboardInterrupt(), RUN_ASKS, is_kept=False) == "stay"
    assert describe_ctrl_c(ATTACH, is_kept=False) == "leaves it ended"


def test_ctrl_c_right_behind_the_name_of_a_run_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It ended the command without a word where it came before the run was followed."""
    monkeypatch.chdir(tmp_path)
    screen = Screen()
    monkeypatch.setattr(screen, "notify", lambda *_, **__: signal.raise_signal(signal.SIGINT))
    follow = FollowOptions(keeps_record=False)
    monkeypatch.setattr(Attempt, "_follower", lambda *_: SimpleNamespace(start=lambda: None))
    entry = HostEntry("a")
    launch = LaunchRequest(
        (entry,), Job(name="plain"), ConnectionPool(lambda _: pytest.fail("connects")), follow=follow
    )
    attempt = Attempt(launch, plain_plan(make_run_id("r"), ["a"], 1, "", claims=False), screen)
    counted: list[str] = []
    monkeypatch.setattr(attempt, "_loop", lambda signals: counted.append(signals.pop()))
    monkeypatch.setattr(attempt, "_act", lambda _: pytest.fail("over"))
    with pytest.raises((pytest.fail.Exception, KeyboardInterrupt)):
        attempt.start_and_follow()
    assert counted == [CTRL_C]
