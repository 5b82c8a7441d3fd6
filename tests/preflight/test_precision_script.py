"""What a script says of its own precision, and what the launch makes of it."""

from dataclasses import replace
from typing import Any

import pytest

from preflight.facts.script import CodeLocation, PrecisionSite
from preflight.job import EngineTraits, Job, PrecisionRequest
from tests.hardware import cpu_host, gpu, host
from tests.preflight.readings import BARE, decide, literal, on, reading


@pytest.mark.parametrize(
    ("card", "wanted", "dtype", "noted"),
    [
        ("NVIDIA TITAN RTX", "auto", "float32", True),
        ("NVIDIA L40S", "auto", "float32", False),  # bf16 has no scaler
        ("NVIDIA TITAN RTX", "fp16", "bfloat16", False),
    ],
)
def test_float32_parameters_are_noted_where_a_scaler_needs_them(
    card: str, wanted: PrecisionRequest, dtype: Any, *, noted: bool
) -> None:
    decision = on([card], wanted, reading(BARE, trained_dtype=dtype))
    assert any("as fp16's scaler needs" in reason.text for reason in decision.reasons) is noted


@pytest.mark.parametrize(
    "site",
    [
        PrecisionSite(CodeLocation("train.py", 12), "Accelerator", "", binding=False, option="--bf16"),
        PrecisionSite(CodeLocation("train.py", 12), "Accelerator", "", binding=True),
    ],
)
def test_what_takes_its_precision_from_an_option_or_computes_it_is_no_bare_accelerator(
    site: PrecisionSite,
) -> None:
    decision = on(["NVIDIA L40S"], script=reading(site, trained_dtype="float32"))
    assert not any("detects nothing" in reason.text for reason in decision.reasons)


@pytest.mark.parametrize(
    ("evidence", "source"), [("train.py:8: load()", "train.py:8: load()"), ("", "train.py")]
)
def test_parameters_that_rule_fp16_out_are_shown_where_they_are_made(evidence: str, source: str) -> None:
    script = reading(BARE, trained_dtype="checkpoint", trained_dtype_evidence=evidence)
    decision = on(["NVIDIA TITAN RTX"], script=script)
    assert [reason.source for reason in decision.reasons[:2]] == [source, source]


@pytest.mark.parametrize(
    ("cards", "value", "native", "useless"),
    [
        (["NVIDIA L40S"], "fp16", True, False),
        (["NVIDIA TITAN RTX", "NVIDIA L40S"], "fp16", False, False),  # not every GPU has bf16
        ([], "fp16", False, True),
        ([], "bf16", False, False),
        (["NVIDIA L40S"], "bf16", False, False),
    ],
)
def test_fp16_written_in_the_script_is_commented_where_there_is_better(
    cards: list[str], value: str, *, native: bool, useless: bool
) -> None:
    script = reading(literal(value))
    decision = on(cards, script=script) if cards else decide({"p": cpu_host("p")}, Job(gpus="none"), script)
    texts = " ".join(reason.text for reason in decision.reasons)
    assert ("has native bf16" in texts, "on the CPU fp16 does nothing" in texts) == (native, useless)


TORCHRUN = EngineTraits("torchrun", ("torch",), sets_precision=False)


@pytest.mark.parametrize(
    ("changes", "reaches"),
    [
        ({}, False),
        ({"style": "accelerate"}, True),
        ({"imports": ("accelerate",)}, True),
        ({"problem": "line 3: invalid syntax"}, True),  # nothing is known of it
        ({"precision": (replace(BARE, option="--bf16"),)}, True),
        ({"precision": (BARE, replace(BARE, option="--bf16"))}, True),
        ({"precision": (literal("bf16"),)}, True),
        ({"precision": (literal("bf16"), BARE)}, True),
        ({"precision": (literal(""),)}, False),
        ({"precision": (replace(BARE, value="bf16"),)}, False),
        ({"precision": (BARE,)}, False),
    ],
)
def test_an_engine_that_sets_no_precision_leaves_a_plain_script_alone(
    changes: dict[str, Any], *, reaches: bool
) -> None:
    sites = changes.pop("precision", ())
    script = reading(*sites, **{"style": "torch", "imports": ("torch",), **changes})
    facts = host("h", [gpu(0, "NVIDIA L40S", host="h")])
    decision = decide({"h": facts}, Job(engine=TORCHRUN), script)
    assert decision.mixed_precision == ("bf16" if reaches else "no")
    assert decide(
        {"h": facts}, Job(engine=replace(TORCHRUN, sets_precision=True)), script
    ).mixed_precision == ("bf16")


def test_without_a_script_to_read_the_launch_says_a_precision() -> None:
    facts = host("h", [gpu(0, "NVIDIA L40S", host="h")])
    assert decide({"h": facts}, Job(engine=TORCHRUN)).mixed_precision == "bf16"


@pytest.mark.parametrize(
    ("changes", "source"),
    [
        ({}, "train.py"),
        ({"own_scaler": "train.py:4: GradScaler()"}, "train.py:4: GradScaler()"),
        ({"own_autocast": "train.py:5: autocast()"}, "train.py:5: autocast()"),
    ],
)
@pytest.mark.parametrize(("wanted", "changed"), [("auto", ""), ("no", ""), ("bf16", "bf16"), ("fp8", "fp8")])
def test_a_request_that_a_plain_script_cannot_take_is_shown_as_changed(
    changes: dict[str, Any], source: str, wanted: PrecisionRequest, changed: str
) -> None:
    script = reading(style="torch", imports=("torch",), **changes)
    facts = host("h", [gpu(0, "NVIDIA L40S", host="h")])
    decision = decide({"h": facts}, Job(engine=TORCHRUN, precision=wanted), script)
    assert (decision.mixed_precision, decision.requested) == ("no", changed)
    assert decision.reasons[0].source == source
    assert ("casts its forward itself" in decision.reasons[0].text) is bool(changes)


@pytest.mark.parametrize(
    ("wanted", "requested"), [("auto", ""), ("no", ""), ("fp16", "fp16"), ("bf16", "bf16")]
)
def test_a_command_of_its_own_launcher_gets_no_precision_and_a_request_is_shown(
    wanted: PrecisionRequest, requested: str
) -> None:
    engine = EngineTraits("command", (), once_per_host=True)
    facts = host("h", [gpu(0, "NVIDIA L40S", host="h")])
    decision = decide({"h": facts}, Job(engine=engine, precision=wanted), None)
    assert (decision.mixed_precision, decision.requested) == ("no", requested)
