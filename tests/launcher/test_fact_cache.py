"""`--max-age`: what is kept of hosts, for how long, and what a file or an answer that lies can do."""

import json
import os
import stat
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.config.inventory import HostEntry
from launcher.errors import AgentProtocolError
from launcher.host_checks.fact_cache import FactCache
from launcher.host_checks.render_text import render_reused_facts
from launcher.remote.agent import decode_document
from launcher.remote.earlier_facts import EarlierFacts, FixedGpu, select_reusable_parts, select_young_part
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import decode, encode
from preflight.facts.missing import Missing
from preflight.probes.nvml.gpus import FIXED_FIELDS

RECORDING = Path(__file__).parents[1] / "preflight/recordings/8xh100.json"
TITAN = HostEntry("titan")


def recorded() -> HostFacts:
    facts = decode(HostFacts, json.loads(RECORDING.read_text())["facts"])
    assert not isinstance(facts.python, Missing)
    return replace(facts, host="titan", python=replace(facts.python, packages_stamp="a-stamp"))


def left_out(facts: HostFacts) -> dict[str, Any]:
    """Return an answer as a host gives it to which all of that is known."""
    answer = encode(facts)
    for name in ("packages", "torch_cuda", "nccl"):
        del answer["python"][name]
    for gpu in answer["gpus"]:
        for name in FIXED_FIELDS:
            del gpu[name]
    return dict(answer)


def kept() -> EarlierFacts:
    earlier = select_reusable_parts(recorded(), None, 1000.0)
    assert earlier is not None
    return earlier


def test_the_fixed_fields_of_client_and_host_are_the_same() -> None:
    assert set(FixedGpu.__dataclass_fields__) == FIXED_FIELDS


def test_what_a_host_leaves_out_is_filled_in_and_its_age_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1180.0)
    answer = json.dumps(left_out(recorded())).encode()
    assert len(answer) < 0.85 * len(json.dumps(encode(recorded())))
    facts = decode_document("titan", answer, "titan", kept())
    assert replace(facts, reused={}) == recorded()
    assert facts.reused == {"gpus": 180.0, "packages": 180.0}
    again = select_reusable_parts(facts, kept(), 1180.0)
    assert again is not None
    assert again.read_unix == {"gpus": 1000.0, "packages": 1000.0}  # reuse makes nothing younger
    younger = replace(facts, reused={"packages": 60.0})
    assert list(render_reused_facts([facts, younger])) == [
        "not read again of 1 host: what GPUs cannot change, read 3 min 0 s ago",
        "not read again of 2 hosts: packages, read 1 min 0 s to 3 min 0 s ago",
    ]


def test_an_answer_of_another_boot_or_of_no_question_is_not_filled_in() -> None:
    answer = left_out(recorded())
    answer["identity"]["boot_id"] = "another"
    for earlier in (kept(), None):
        with pytest.raises(AgentProtocolError, match="packages is absent"):
            decode_document("titan", json.dumps(answer).encode(), "titan", earlier)


def test_gpus_of_another_driver_are_not_filled_in() -> None:
    answer = left_out(recorded())
    answer["driver"]["version"] = "1.0"
    facts = decode_document("titan", json.dumps(answer).encode(), "titan", kept())
    assert list(facts.reused) == ["packages"]
    assert not isinstance(facts.gpus, Missing)
    assert all(isinstance(gpu.name, Missing) for gpu in facts.gpus)


def test_a_host_that_names_ages_itself_is_not_believed() -> None:
    answer = json.dumps({**encode(recorded()), "reused": {"everything": -1.0}}).encode()
    assert decode_document("titan", answer, "titan").reused == {}
    assert decode_document("titan", answer, "titan", kept()).reused == {}


@pytest.mark.parametrize(
    ("now", "parts"),
    [(1055.0, ["gpus", "packages"]), (1090.0, ["packages"]), (1200.0, []), (900.0, [])],
    ids=["young", "one-is-older", "old", "of-the-future"],
)
def test_only_parts_that_are_young_enough_are_used(now: float, parts: list[str]) -> None:
    earlier = replace(kept(), read_unix={"gpus": 1000.0, "packages": 1050.0})
    found = select_young_part(earlier, 60.0, now)
    key = {} if found is None else found.key()
    assert [name for name in ("gpus", "packages") if key.get(name)] == parts


def test_a_gpu_that_was_not_read_whole_is_read_again() -> None:
    facts = recorded()
    assert not isinstance(facts.gpus, Missing)
    first, *others = facts.gpus
    hung = replace(first, name=Missing("no answer within 15 s", "timeout"))
    earlier = select_reusable_parts(replace(facts, gpus=(hung, *others)), None, 1000.0)
    assert earlier is not None
    assert list(earlier.gpus) == [gpu.uuid for gpu in others]


def test_an_answer_without_gpus_leaves_what_is_known_of_them() -> None:
    """A launch on CPUs asks for none (`--gpus none --max-age 1h`)."""
    facts, before = recorded(), kept()
    blind = replace(facts, gpus=Missing("not asked", "not-asked"), driver=Missing("not asked", "not-asked"))
    after = select_reusable_parts(blind, before, 2000.0)
    assert after is not None
    assert (after.gpus, after.driver) == (before.gpus, before.driver)
    assert after.read_unix == {"gpus": before.read_unix["gpus"], "packages": 2000.0}
    booted = select_reusable_parts(blind, replace(before, boot_id="another"), 2000.0)
    assert booted is not None
    assert booted.gpus == {}


@pytest.mark.parametrize("max_age_s", [600, 0])
def test_a_launch_without_gpus_that_takes_younger_facts_only_forgets_no_gpus(
    tmp_path: Path, max_age_s: float
) -> None:
    FactCache(600, tmp_path).keep([TITAN], {"titan": recorded()})
    blind = replace(recorded(), gpus=Missing("not asked", "not-asked"))
    later = FactCache(max_age_s, tmp_path)
    later.keep([TITAN], {"titan": blind})
    found = FactCache(600, tmp_path).find_earlier(TITAN)
    assert found is not None
    assert found.gpus == kept().gpus


def test_gpus_of_a_file_without_their_age_are_not_kept(tmp_path: Path) -> None:
    FactCache(600, tmp_path).keep([TITAN], {"titan": recorded()})
    (file,) = tmp_path.iterdir()
    _edited(read_unix={"packages": time.time()})(file)
    cache = FactCache(600, tmp_path)
    cache.keep([TITAN], {"titan": replace(recorded(), gpus=Missing("not asked", "not-asked"))})
    found = FactCache(600, tmp_path).find_earlier(TITAN)
    assert found is not None
    assert found.gpus == {}


def test_files_are_for_their_user_alone_and_found_by_how_a_host_is_reached(tmp_path: Path) -> None:
    folder = tmp_path / "state/facts"
    FactCache(600, folder).keep([TITAN], {"titan": recorded()})
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    cache = FactCache(600, folder)
    found = cache.find_earlier(TITAN)
    assert found is not None
    assert found.key() == kept().key()
    for other in (HostEntry("rhea"), replace(TITAN, python="/opt/env/bin/python"), replace(TITAN, port=2222)):
        assert cache.find_earlier(other) is None
    assert FactCache(0, folder).find_earlier(TITAN) is None
    os.utime(file, (0, 0))
    cache.keep([], {})
    assert not file.exists()


def _link(path: Path) -> None:
    target = path.with_name("target")
    path.rename(target)
    path.symlink_to(target)


def _edited(**changes: Any) -> Callable[[Path], None]:
    def edit(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return edit


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "spoil",
    [
        _link,
        lambda path: path.write_bytes(b"\xff\x00" * 50),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_text(" " * ((1 << 20) + 1)),
        _fifo,
        _directory,
        _edited(packages={"packages": 3}),
        _edited(gpus=[]),
        _edited(read_unix={"gpus": "now"}),
        _edited(read_unix={"gpus": 1e999, "packages": 1}),
        _edited(read_unix={}),
    ],
    ids=[
        "link",
        "bytes",
        "deep",
        "large",
        "fifo",
        "directory",
        "packages",
        "gpus",
        "time",
        "endless",
        "ages",
    ],
)
def test_a_file_that_is_not_ours_is_nothing(tmp_path: Path, spoil: Callable[[Path], object]) -> None:
    FactCache(600, tmp_path).keep([TITAN], {"titan": recorded()})
    (file,) = tmp_path.iterdir()
    spoil(file)
    assert FactCache(600, tmp_path).find_earlier(TITAN) is None


def test_facts_that_cannot_be_kept_are_said_and_stop_nothing(tmp_path: Path) -> None:
    (tmp_path / "facts").write_text("in the way")
    cache = FactCache(600, tmp_path / "facts")
    cache.keep([TITAN], {"titan": recorded()})
    assert cache.problem == f"facts are not kept for the next time: {tmp_path / 'facts'}: Not a directory"
