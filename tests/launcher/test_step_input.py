"""What the tasks of a Slurm step get: each all of the input, so that what is for all of them travels once."""

import os
import random
import sys
from pathlib import Path

import pytest

from launcher.config.inventory import HostEntry
from launcher.errors import ConnectionLost, PythonNotFound, StepEnded
from launcher.remote.program_source import build_bootstrap_argv, compress_program, read_program_source
from launcher.sync.sync import SyncJob, send_tree
from launcher.sync.tree import read_tree
from launcher.transports.step.step import SlurmStep, StepConnection
from launcher.transports.step.wire import KEPT, KeptTexts
from tests.launcher.sync_tree import listing, write

STAND_IN = str(Path(__file__).with_name("srun_stand_in.py"))
NODES = ("n1", "n2", "n3")


def step(counted: Path) -> SlurmStep:
    argv = [sys.executable, STAND_IN, str(counted), *NODES, "--"]
    relay = compress_program(read_program_source("step_relay"), "step_relay.py")
    return SlurmStep(
        [*argv, *build_bootstrap_argv(sys.executable, "gpulaunch-step")], NODES, os.environ, relay
    )


def test_an_interpreter_that_a_node_lacks_is_named_whatever_comes_first() -> None:
    said = "slurmstepd-n1: error: execve(): /nowhere/python: No such file or directory"
    ends = f"srun: error: n1: task 0: Exited with exit code 2\n{said}"
    step = SlurmStep(["sh", "-c", 'echo "$0" >&2; cat > /dev/null', ends], ("n1",), os.environ, b"")
    step.start()
    with pytest.raises(
        PythonNotFound, match="n1: its task cannot start /nowhere/python: No such file"
    ) as error:
        step.task("n1")
    step.close()
    assert "`python:` of n1" in error.value.fix


def test_tasks_that_srun_names_together_are_all_gone() -> None:
    ends = "srun: error: n[2-3]: tasks 1-2: Killed\nsrun: error: Node failure on n4"
    step = SlurmStep(["sh", "-c", 'echo "$0" >&2; cat > /dev/null', ends], ("n1", "n2", "n3", "n4"), {}, b"")
    step.start()
    for node, why in {"n2": "Killed", "n3": "Killed", "n4": "the node has failed"}.items():
        with pytest.raises(StepEnded, match=f"{node}: .*{why}"):
            step.task(node, 20.0)
    step.close()


def test_a_step_in_a_job_of_another_user_is_refused_in_words() -> None:
    said = (
        "srun: cluster configuration lacks support for cpu binding\n"
        "srun: error: Unable to create step for job 6: Access/permission denied"
    )
    late = '(sleep 0.2; echo "$0" >&2) > /dev/null & exit 1'  # its words are read after its end is seen
    step = SlurmStep(["sh", "-c", late, said], ("n1",), {}, b"")

    def begin() -> None:
        step.start()
        step.task("n1", 20.0)

    with pytest.raises((StepEnded, ConnectionLost)) as refusal:  # where srun ends before it is written to
        begin()
    step.close()
    assert "cpu binding" not in refusal.value.detail
    assert refusal.value.detail.endswith("denied; only the job's own user can start steps in it")


@pytest.mark.slow
def test_a_tree_for_all_nodes_passes_through_their_step_once(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    noise = random.Random(7)
    write(tree, {f"pkg/module_{number}.py": noise.randbytes(600).hex() for number in range(300)})
    (tree / "data.bin").write_text(noise.randbytes(5 << 19).hex())
    counted = tmp_path / "counted"
    running = step(counted)
    running.start()
    entries = [HostEntry(node, alias=node, python=sys.executable) for node in NODES]
    source = read_tree(tree, exclude=(), max_mib=16)
    job = SyncJob(lambda: source, {node: str(tmp_path / node) for node in NODES})
    found = send_tree(job, entries, lambda entry: StepConnection(running, entry.alias, entry.name), print)
    running.close()
    assert [host.done.written for host in found.values()] == [301] * len(NODES)
    assert all(listing(tmp_path / node) == listing(tree) for node in NODES)
    assert int(counted.read_text()) < 0.8 * source.size  # compressed it is 0.58 of its size


def test_a_text_that_was_given_up_is_sent_again() -> None:
    texts = KeptTexts()
    parts = [os.urandom(8192) for _ in range(KEPT + 1)]
    first = [len(texts.input_messages("n1", "1", part)) for part in parts]
    again = [len(texts.input_messages("n2", "2", part)) for part in parts[1:]]
    lost = len(texts.input_messages("n2", "2", parts[0]))
    assert min(first) > 8192
    assert max(again) < 40
    assert lost > 8192
