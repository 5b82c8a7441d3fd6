"""Every door holds against inputs that nobody thought of; and the fuzzer sees it when one does not.

FUZZ_S is for how many seconds each door is tried (`make test` and alone: 1); FUZZ_SEED gives other inputs.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.fuzz import ROOT, fuzz, keep
from tests.fuzz.targets import DOORS
from tests.fuzz.worker import EXIT_FAILED, SHARED_SIZE

SECONDS = float(os.environ.get("FUZZ_S", "1"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_a_door_holds(door: str) -> None:
    result = fuzz(door, SEED, SECONDS)
    assert not result.why, f"seed {SEED}: make fuzz INPUT={keep(result, SEED)}\n{result.why}"
    assert int(result.message.partition(" ")[0]) >= len(
        list((Path(__file__).parent / "corpus" / door).glob("*"))
    )


BAD = """
import sys
from tests.fuzz import targets, worker
def slow(data):
    while True: pass
def large(data):
    bytearray(700 << 20)
def crash(data):
    if len(data) > 3: raise KeyError(data[:3])
def quiet(data):
    if len(data) > 3:
        from preflight.errors import BadInput
        raise BadInput("")
if sys.argv[1] == "slow":
    worker.CPU_LIMIT_S = 0.2
targets.DOORS["words"] = targets.Door("words", lambda folder: locals_[sys.argv[1]])
locals_ = {"slow": slow, "large": large, "crash": crash, "quiet": quiet}
sys.exit(worker.main("words", "1", "20", sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "code", "message"),
    [
        ("slow", -27, ""),
        ("large", EXIT_FAILED, "MB of memory"),
        ("crash", EXIT_FAILED, "KeyError"),
        ("quiet", EXIT_FAILED, "a refusal without a reason"),
    ],
)
def test_what_a_reader_must_not_do_is_seen_and_its_input_is_there(
    tmp_path: Path, way: str, code: int, message: str
) -> None:
    shared = tmp_path / "input"
    shared.write_bytes(b"\0" * SHARED_SIZE)
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    words = [sys.executable, "-c", BAD, way, str(shared)]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, message in done.stdout) == (code, True), done.stderr
    size = int.from_bytes(shared.read_bytes()[:8], "little")
    assert size > 3, "the first input of the corpus is longer"


def test_one_seed_tries_the_same_inputs(tmp_path: Path) -> None:
    program = """
import random, sys
from tests.fuzz import targets
from tests.fuzz.mutation import mutated
door = targets.DOORS["records"]
rng = random.Random("records 7")
pool = list(door.corpus(rng, 40))
print([hash(mutated(rng, rng.choice(pool), pool, door.words, is_json=True)) for _ in range(300)])
"""
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    words = [sys.executable, "-c", program]
    runs = [subprocess.check_output(words, cwd=ROOT, env=env, timeout=60) for _ in range(2)]
    assert runs[0] == runs[1]
    assert len(set(runs[0].split())) > 200
