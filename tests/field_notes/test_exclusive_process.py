"""Field note 4's "race for cuda:0": no race. A codec on cuda:0 in every rank takes rank 0's only context."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.field_notes.ranks import LIGHT, shimmed

pytestmark = pytest.mark.train

# Each rank is a process of its own, forked from one that has imported torch and opened no GPU.
RANKS = """
import json, os, signal, sys, torch
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for line in sys.stdin:
    rank = json.loads(line)
    if os.fork():
        continue
    os.environ["SHIM_EXCLUSIVE"] = rank["contexts"]
    said = "READY"
    try:
        codec = torch.nn.Linear(2, 2).to(torch.device(rank["codec"]))
        model = torch.nn.Linear(2, 2).to(f"cuda:{rank['rank']}")
    except RuntimeError as error:
        said = str(error)
    print(json.dumps({"pid": os.getpid(), "said": said}), flush=True)
    if said != "READY":
        os._exit(1)
    while True:
        signal.pause()
"""


class Ranks:
    """Ranks that each hold what they have opened until they are ended."""

    def __init__(self, process: "subprocess.Popen[str]", contexts: Path, codec: str) -> None:
        self.process = process
        self.contexts = contexts
        self.codec = codec
        self.holding: list[int] = []

    def start(self, rank: int) -> str:
        """Start a rank; return "READY", or why it failed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        settings = {"rank": rank, "codec": self.codec.format(rank=rank), "contexts": str(self.contexts)}
        self.process.stdin.write(json.dumps(settings) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if answer["said"] == "READY":
            self.holding.append(answer["pid"])
        return str(answer["said"])

    def end(self) -> None:
        for pid in self.holding:
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def process() -> Iterator["subprocess.Popen[str]"]:
    env = shimmed(f"pretended_gpus {LIGHT}", CUDA_VISIBLE_DEVICES="GPU-a,GPU-b")
    pipe = subprocess.PIPE
    with subprocess.Popen((sys.executable, "-c", RANKS), env=env, text=True, stdin=pipe, stdout=pipe) as one:
        yield one
        one.kill()


def test_a_codec_on_cuda_0_fails_every_rank_but_the_first_every_time(
    process: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    ranks = Ranks(process, tmp_path, "cuda:0")
    try:
        assert ranks.start(0) == "READY"
        for _ in range(2):
            assert "busy or unavailable" in ranks.start(1)
    finally:
        ranks.end()


def test_each_ranks_own_device_cures_it(process: "subprocess.Popen[str]", tmp_path: Path) -> None:
    ranks = Ranks(process, tmp_path, "cuda:{rank}")
    try:
        assert [ranks.start(0), ranks.start(1)] == ["READY", "READY"]
    finally:
        ranks.end()
