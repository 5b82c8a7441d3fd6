"""What clean-zombies says of its choice: a process that lives is never called left over."""

import random
from dataclasses import replace

from launcher.report.clean import choice_lines
from preflight.absence import Missing
from preflight.cleaning import Wish, choose
from preflight.facts import ProcessTable, Unread
from preflight.leftovers import classify
from tests.preflight import scenes
from tests.preflight.scenes import Scene


def headline(scene: Scene, *pids: int) -> str:
    facts = scene.facts()
    return choice_lines(facts, choose(classify(facts), Wish(pids=pids)))[0].partition(": ")[2]


def test_a_process_that_lives_and_is_named_is_not_called_left_over() -> None:
    scene = Scene(random.Random(1))
    above = scenes.launcher(scene)
    rank = scenes.ranks(scene, above)[0]
    assert headline(scene) == "nothing left over that may be ended"
    assert headline(scene, rank) == "1 named by --pid though it lives, ended after a yes"


def test_what_is_proven_to_be_left_over_is_called_that() -> None:
    scene = Scene(random.Random(1))
    scenes.dead_launch(scene)
    assert headline(scene).endswith(" left over, ended after a yes")


def test_what_could_not_be_judged_is_told_and_nothing_is_called_clean() -> None:
    facts = Scene(random.Random(1)).facts()
    assert isinstance(facts.processes, ProcessTable)
    bad = Unread(77, "mallory", "ValueError: odd")
    for unjudged in (
        replace(facts, processes=Missing("the probe ended early")),
        replace(facts, identity=Missing("the probe ended early")),
        replace(facts, processes=replace(facts.processes, unread=(bad,))),
    ):
        head, *rest = choice_lines(unjudged, choose(classify(unjudged), Wish()))
        assert head.endswith(": not everything could be judged")
        assert rest
    assert "  not seen: pid 77 (mallory) could not be judged: ValueError: odd" in rest
