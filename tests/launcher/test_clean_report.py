"""What clean-zombies says of its choice: a process that lives is never called left over."""

import random
import re
from dataclasses import replace

import pytest

from launcher.cleanup.clean import refuse_unknown
from launcher.cleanup.render import render_named_pids, render_selection, render_selections
from launcher.errors import BadInput
from preflight.facts.gpu import ComputeProcess
from preflight.facts.host import BindTest, HostFacts, Ports, ProcessTable, Socket, UnreadableProcess
from preflight.facts.missing import Missing
from preflight.leftovers.classify import classify_processes
from preflight.leftovers.selection import CleanFilter, select_to_kill
from tests.preflight import scenes
from tests.preflight.scenes import Scene


def headline(scene: Scene, *pids: int) -> str:
    facts = scene.facts()
    return render_selection(facts, select_to_kill(classify_processes(facts), CleanFilter(pids=pids)))[
        0
    ].partition(": ")[2]


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
    bad = UnreadableProcess(77, "mallory", "ValueError: odd")
    for unjudged in (
        replace(facts, processes=Missing("the probe ended early")),
        replace(facts, identity=Missing("the probe ended early")),
        replace(facts, processes=replace(facts.processes, unread=(bad,))),
    ):
        head, *rest = render_selection(unjudged, select_to_kill(classify_processes(unjudged), CleanFilter()))
        assert head.endswith(": not everything could be judged")
        assert rest
    assert "  not seen: pid 77 (mallory) could not be judged: ValueError: odd" in rest


def test_hosts_with_the_same_words_share_them_and_one_with_a_process_does_not() -> None:
    clean, left = Scene(random.Random(1)), Scene(random.Random(1))
    scenes.dead_launch(left)
    hosts = [("n1", clean), ("n2", left), ("n3", clean), ("n4", left)]
    named = [replace(scene.facts(), host=name) for name, scene in hosts]
    chosen = [(facts, select_to_kill(classify_processes(facts), CleanFilter())) for facts in named]
    lines = list(render_selections(chosen, CleanFilter()))
    heads = [line.partition(":")[0] for line in lines if not line.startswith(" ")]
    assert heads == ["n[1,3]", "n2", "n4"]
    assert lines[0] == "n[1,3]: nothing left over that may be ended"


def named(scene: Scene, facts: HostFacts, wish: CleanFilter) -> list[str]:
    del scene
    return list(render_named_pids(facts, select_to_kill(classify_processes(facts), wish), wish))


def test_a_gpu_or_process_that_is_not_there_is_an_error_and_names_what_is() -> None:
    scene = Scene(random.Random(1))
    shell = scene.add(comm="sleep", argv=("sleep", "60"))
    rank = scene.add(env=scenes.elastic("1", 0), gpus=(1,))
    facts = scene.facts()
    for wish, words in (
        (CleanFilter(gpus=(0, 7)), "h has no GPU 7: it has GPU 0, 1, 2, 3"),
        (CleanFilter(pids=(rank, 77777)), "h has no process 77777"),
        (CleanFilter(pids=(shell,)), f"pid {shell} (sleep) on h is neither rank nor launcher"),
    ):
        with pytest.raises(BadInput, match=re.escape(words)):
            refuse_unknown(facts, wish)
    refuse_unknown(facts, CleanFilter(gpus=(3,), pids=(rank,), ports=(31000,)))
    with pytest.raises(BadInput, match="it has none"):
        refuse_unknown(replace(facts, gpus=Missing("no driver", "no-devices")), CleanFilter(gpus=(0,)))
    with pytest.raises(BadInput, match="could not be read: it hangs"):
        refuse_unknown(replace(facts, gpus=Missing("it hangs", "timeout")), CleanFilter(gpus=(0,)))


def test_kill_is_advised_only_for_a_process_of_ones_own() -> None:
    scene = Scene(random.Random(1))
    mine = scene.add(comm="sleep", argv=("sleep", "60"))
    session = scene.add(comm="bash", argv=("-bash",))
    fixes = {
        1: "leave it: the machine or container ends with it",
        scene.add(uid=scenes.ROOT, comm="kworker/0:1", argv=()): "leave it: it is part of the kernel",
        scene.add(uid=scenes.OTHER, comm="vim", argv=("vim",)): f"ask {scenes.USERS[scenes.OTHER]}",
        scene.add(uid=scenes.ROOT, comm="sshd", argv=("sshd",)): "leave it; it is not a job",
        session: "leave it: it is part of the session that asks",
        mine: f"if it is yours to end, on h: kill {mine}",
    }
    facts = scene.facts()
    assert isinstance(facts.processes, ProcessTable)
    facts = replace(facts, processes=replace(facts.processes, ancestors=(session,)))
    for pid, fix in fixes.items():
        with pytest.raises(BadInput) as refused:
            refuse_unknown(facts, CleanFilter(pids=(pid,)))
        assert refused.value.fix == fix
    refuse_unknown(replace(facts, identity=Missing("the probe ended early")), CleanFilter(pids=(mine,)))


def test_a_gpu_and_a_port_that_nobody_holds_are_told() -> None:
    scene = Scene(random.Random(1))
    facts = scene.facts()
    assert isinstance(facts.ports, Ports)
    ports = replace(
        facts.ports,
        binds=(BindTest(31000, True, ""), BindTest(31001, False, "in use")),
        sockets=tuple(
            Socket(31001, "0.0.0.0", "LISTEN", uid, Missing("not yours", "no-permission"), user)
            for uid, user in ((1001, "1001"), (2002, "bob"))
        ),
    )
    row = ComputeProcess(526, "compute", 8000, "python")
    gpus = tuple(replace(gpu, processes=(row,) if gpu.index == 1 else ()) for gpu in facts.known_gpus)
    facts = replace(facts, ports=ports, gpus=gpus)
    assert named(scene, facts, CleanFilter(gpus=(1, 2), ports=(31000, 31001))) == [
        "  gpu1: no process holds it, as far as can be seen; the driver names pid 526",
        "  gpu2: no process holds it, as far as can be seen",
        "  port 31000: free",
        "  port 31001: held by bob, uid 1001, by no process that can be seen: in use",
    ]


def test_a_gpu_whose_holder_only_the_driver_names_is_not_called_free() -> None:
    scene = Scene(random.Random(1))
    other = scene.add(uid=scenes.OTHER, age_s=60.0)  # whose open files one may not read
    mine = scene.add(ppid=scene.add(comm="bash", argv=("bash",), tty=True), age_s=60.0)
    scene.listed = {0: [other], 1: [mine]}
    facts = scene.facts()
    assert named(scene, facts, CleanFilter(gpus=(0, 1))) == []
    choice = select_to_kill(classify_processes(facts), CleanFilter(gpus=(0,)))
    assert ([each.process.pid for each in choice.kept], choice.automatic, choice.needs_confirmation) == (
        [other],
        (),
        (),
    )
    text = "\n".join(
        render_selection(facts, select_to_kill(classify_processes(facts), CleanFilter(gpus=(0, 1))))
    )
    assert text.count("(as the driver says)") == 2
    assert f"it lives; to end it all the same: gpulaunch clean-zombies h --pid {mine}" in text


@pytest.mark.parametrize(
    ("run", "way"),
    [
        ("", "gpulaunch clean-zombies h --pid "),
        ("train-20260101-000000-abcdef", "gpulaunch stop train-20260101-000000-abcdef"),
        ("$(rm -rf ~)", "gpulaunch clean-zombies h --pid "),
    ],
)
def test_a_holder_that_lives_is_shown_with_what_its_owner_can_do(run: str, way: str) -> None:
    scene = Scene(random.Random(1))
    supervisor = scene.add(comm="python3", argv=("python3", "-"))
    env = {"GPULAUNCH_RUN_ID": run, "GPULAUNCH_SUPERVISOR": scene.mark(supervisor)} if run else {}
    pid = scene.add(ppid=supervisor, env=env, gpus=(0,), age_s=7200.0)
    facts = scene.facts()
    lines = render_selection(facts, select_to_kill(classify_processes(facts), CleanFilter()))
    shown = next(at for at, line in enumerate(lines) if f"pid {pid}  ada" in line)
    assert "2 h" in lines[shown]
    assert f"it lives; to end it all the same: {way}" in lines[shown + 2]


def test_options_of_the_command_go_into_advice_and_not_into_what_processes_run() -> None:
    scene = Scene(random.Random(1))
    argv = ("gpulaunch", "preflight", "titan")
    pid = scene.add(ppid=scene.add(comm="bash", argv=("bash",), tty=True), argv=argv, gpus=(0,), age_s=7200.0)
    facts = scene.facts()
    choice = select_to_kill(classify_processes(facts), CleanFilter())
    text = "\n".join(render_selections([(facts, choice)], CleanFilter(), ("-i", "lab.yaml")))
    assert "  gpulaunch preflight titan  " in text
    assert f"gpulaunch clean-zombies -i lab.yaml h --pid {pid}" in text
