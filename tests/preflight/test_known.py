"""What a host need not send again: proven by the host itself, never taken on trust."""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from launcher.remote.earlier_facts import fill_in, select_reusable_parts
from launcher.remote.pynvml_source import pack_pynvml
from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import decode
from preflight.probes import earlier_facts
from preflight.probes.earlier_facts import read_known, stamp_packages
from preflight.probes.files import read_text_or
from preflight.probes.nvml.gpus import FIXED_FIELDS
from tests.hardware import gpus_of
from tests.lab.silicon import load_profile, stage
from tests.preflight.agent_runs import payload, streamed

PROFILE = "2xl40s-exclusive"
SLOW_FACTS = ("processes", "ports", "system", "network", "kernel_log", "paths", "script")


@pytest.fixture
def settled_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the folders of a test be old enough to be certain of."""
    now = time.time() + 60
    monkeypatch.setattr(time, "time", lambda: now)


def packages(folder: Path) -> Path:
    (folder / "torch").mkdir(parents=True)
    (folder / "torch/version.py").write_text("cuda = '12.6'\n")
    (folder / "torch-2.9.1.dist-info").mkdir()
    return folder


@pytest.mark.usefixtures("settled_clock")
def test_every_change_of_packages_changes_their_stamp(tmp_path: Path) -> None:
    folder = packages(tmp_path / "site")
    path = [str(tmp_path / "absent"), str(folder)]
    stamps = [stamp_packages("python", path)]
    assert stamps[0] == stamp_packages("python", path)

    def changed() -> bool:
        stamps.append(stamp_packages("python", path))
        return stamps[-1] not in stamps[:-1] and stamps[-1] != ""

    (folder / "accelerate-1.0.dist-info").mkdir()
    assert changed()
    (folder / "accelerate-1.0.dist-info").rename(folder / "accelerate-2.0.dist-info")
    assert changed()
    (folder / "torch/version.py").write_text("cuda = '13.0'\n")
    os.utime(folder / "torch/version.py", (0, 0))  # the time of change stays
    assert changed()
    packages(tmp_path / "absent")
    assert changed()
    shutil.rmtree(folder)
    packages(folder)
    assert changed()
    assert stamp_packages("other-python", path) != stamps[-1]


def test_folders_that_have_just_changed_have_no_stamp(tmp_path: Path) -> None:
    assert stamp_packages("python", [str(packages(tmp_path / "site"))]) == ""


def test_another_boot_or_driver_makes_nothing_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    boot, module = tmp_path / "boot_id", tmp_path / "version"
    boot.write_text("a-boot\n")
    module.write_text("580.65.06\n")
    monkeypatch.setattr(earlier_facts, "BOOT_ID", str(boot))
    monkeypatch.setattr(earlier_facts, "_MODULE_VERSION", str(module))
    told = {"boot_id": "a-boot", "nvidia_module": "580.65.06", "driver": "d", "packages": "s", "gpus": ["u"]}
    assert read_known(told) == ("d", "s", frozenset({"u"}))
    assert read_known({}) is None
    assert read_known({**told, "boot_id": "another"}) is None
    assert read_known({**told, "nvidia_module": "595.10"}) is None
    module.unlink()  # the driver is unloaded
    assert read_known(told) is None


def _ask(folder: Path, request: dict[str, Any]) -> tuple[dict[str, Any], int]:
    stage(load_profile(PROFILE), folder)
    env = {**os.environ, "SILICON_STATE": str(folder), "LD_LIBRARY_PATH": str(folder / "lib")}
    answered = streamed(payload({"skip": SLOW_FACTS, **request}, pack_pynvml()), env=env)
    assert answered.returncode == 0, answered.stderr.decode()
    body = answered.stdout.partition(b"GPULAUNCH-FACTS-1 ")[2].partition(b"\n")[2]
    return json.loads(body), len(body)


@pytest.mark.skipif(shutil.which("cc") is None, reason="the simulated NVML needs a C compiler")
def test_an_agent_leaves_out_what_is_known_and_reads_the_rest_again(tmp_path: Path) -> None:
    machine = {
        "boot_id": read_text_or(earlier_facts.BOOT_ID),
        "nvidia_module": earlier_facts.read_module_version(),
    }
    uuids = [gpu.values["uuid"] for gpu in load_profile(PROFILE).gpus]
    raw, size = _ask(
        tmp_path, {"known": {**machine, "driver": "another", "packages": "another", "gpus": uuids}}
    )
    whole = decode(HostFacts, raw)
    assert [gpu["uuid"] for gpu in raw["gpus"]] == uuids
    kept = select_reusable_parts(whole, None, 1000.0)
    assert kept is not None

    again, smaller = _ask(tmp_path, {"known": kept.key()})
    assert size - smaller > 500
    assert "packages" not in again["python"]
    assert all(FIXED_FIELDS.isdisjoint(gpu) and "memory" in gpu for gpu in again["gpus"])
    fill_in(again, kept, 1060.0)
    filled = decode(HostFacts, again)
    assert filled.reused == {"gpus": 60.0, "packages": 60.0}
    assert filled.python == whole.python
    assert [fixed(gpu) for gpu in gpus_of(filled)] == [fixed(gpu) for gpu in gpus_of(whole)]


def fixed(gpu: Gpu) -> list[object]:
    return [getattr(gpu, name) for name in sorted(FIXED_FIELDS)]
