"""One mixed precision for a launch: hardware, request and script, and the reasons given."""

from dataclasses import replace
from typing import Any

import pytest

from preflight.decide import precision
from preflight.decide.decision import NodeRanks, RankSlot
from preflight.decide.precision import PrecisionRefused, choose_fp8_backend, find_hardware_limit
from preflight.facts.gpu import Gpu
from preflight.facts.missing import Missing
from preflight.facts.script import Option
from preflight.job import Job, Precision, PrecisionRequest
from tests.hardware import CARDS, cpu_host, gpu, host, l40s, titan
from tests.preflight.readings import BARE, decide, literal, on, reading


@pytest.mark.parametrize(
    ("card", "best"),
    [
        ("NVIDIA GeForce GTX 980", "no"),
        ("Tesla P100-PCIE-16GB", "no"),
        ("NVIDIA GeForce GTX 1080 Ti", "no"),
        ("Tesla P40", "no"),
        ("Tesla V100-SXM2-16GB", "fp16"),
        ("Tesla T4", "fp16"),
        ("NVIDIA TITAN RTX", "fp16"),
        ("NVIDIA GeForce RTX 2080 Ti", "fp16"),
        ("NVIDIA GeForce GTX 1660 Ti", "no"),
        ("NVIDIA GeForce GTX 1650", "no"),
        ("Quadro T1000", "no"),
        ("NVIDIA A100-SXM4-40GB", "bf16"),
        ("NVIDIA GeForce RTX 3090", "bf16"),
        ("NVIDIA L40S", "bf16"),
        ("NVIDIA H100 80GB HBM3", "bf16"),
        ("NVIDIA B200", "bf16"),
    ],
)
def test_each_card_has_its_ceiling(card: str, best: Precision) -> None:
    found = find_hardware_limit(gpu(0, card))
    assert not isinstance(found, Missing)
    assert found.best == best
    assert on([card]).mixed_precision == best


def test_every_card_of_the_table_may_train_without_mixed_precision() -> None:
    for card in CARDS:
        limit = find_hardware_limit(gpu(0, card))
        assert not isinstance(limit, Missing)
        assert "no" in limit.on_request
        assert on([card], "no").mixed_precision == "no"


@pytest.mark.parametrize(
    ("cards", "wanted", "given"),
    [
        (["NVIDIA TITAN RTX"], "bf16", "fp16"),
        (["NVIDIA TITAN RTX"], "fp8", "fp16"),
        (["Tesla V100-SXM2-16GB"], "bf16", "fp16"),
        (["NVIDIA GeForce GTX 1660 Ti"], "fp16", "no"),
        (["NVIDIA GeForce GTX 1080 Ti"], "fp16", "no"),
        (["NVIDIA GeForce GTX 1080 Ti"], "bf16", "no"),
        (["Tesla P100-PCIE-16GB"], "bf16", "no"),
        (["NVIDIA A100-SXM4-40GB"], "fp8", "bf16"),
        (["NVIDIA L40S", "NVIDIA TITAN RTX"], "bf16", "fp16"),
        (["NVIDIA L40S", "NVIDIA GeForce GTX 1650"], "fp16", "no"),
    ],
)
def test_a_request_beyond_the_hardware_is_lowered_and_says_from_what(
    cards: list[str], wanted: PrecisionRequest, given: Precision
) -> None:
    decision = on(cards, wanted)
    assert (decision.mixed_precision, decision.requested) == (given, wanted)


@pytest.mark.parametrize(
    ("card", "wanted"),
    [
        ("Tesla P100-PCIE-16GB", "fp16"),
        ("NVIDIA L40S", "fp16"),
        ("NVIDIA L40S", "no"),
        ("NVIDIA TITAN RTX", "fp16"),
    ],
)
def test_a_request_the_hardware_can_do_is_kept(card: str, wanted: PrecisionRequest) -> None:
    decision = on([card], wanted)
    assert (decision.mixed_precision, decision.requested) == (wanted, "")


def test_the_reason_names_host_card_and_capability() -> None:
    decision = decide({"titan": titan()}, Job(precision="bf16"))
    assert decision.reasons[0].text == "titan has TITAN RTX, compute capability 7.5"


def test_unlike_hosts_get_one_precision_and_the_weakest_card_is_named_first() -> None:
    decision = decide({"l40s-01": l40s(), "titan": titan()}, Job())
    assert decision.mixed_precision == "fp16"
    assert "TITAN RTX" in decision.reasons[0].text
    assert any("L40S" in reason.text for reason in decision.reasons[1:])


def test_gpus_that_take_no_part_do_not_lower_the_precision() -> None:
    mixed = host("box", [gpu(0, "NVIDIA L40S"), gpu(1, "NVIDIA GeForce GTX 1650")])
    assert decide({"box": mixed}, Job(gpus=(0,))).mixed_precision == "bf16"
    assert decide({"box": mixed}, Job()).mixed_precision == "no"


def test_an_unknown_capability_is_refused_not_guessed() -> None:
    blind = gpu(0, capability=Missing("the driver has no such field", "not-supported"))
    hosts = {"titan": host("titan", [blind])}
    with pytest.raises(PrecisionRefused, match=r"titan.*GPU 0 \(TITAN RTX\).*no such field") as refusal:
        decide(hosts, Job())
    assert "--precision no" in refusal.value.fix
    assert decide(hosts, Job(precision="no")).mixed_precision == "no"


@pytest.mark.parametrize(
    ("wanted", "given", "changed"),
    [
        ("auto", "no", ""),
        ("no", "no", ""),
        ("bf16", "bf16", ""),
        ("fp16", "no", "fp16"),
        ("fp8", "no", "fp8"),
    ],
)
def test_cpu_ranks_train_in_float32_unless_bf16_is_asked_for(
    wanted: PrecisionRequest, given: Precision, changed: str
) -> None:
    decision = decide({"plain": cpu_host()}, Job(gpus="none", precision=wanted))
    assert (decision.mixed_precision, decision.requested) == (given, changed)


def with_package(card: str, *packages: str) -> dict[str, Any]:
    facts = host("h", [gpu(0, card)])
    python = facts.python
    assert not isinstance(python, Missing)
    installed = dict.fromkeys(packages, "1.0")
    return {"h": host("h", [gpu(0, card)], python=type(python)("py", "3.11", installed, "12.8", "2.27"))}


def test_fp8_needs_an_implementation_on_every_host() -> None:
    assert decide(with_package("NVIDIA L40S"), Job(precision="fp8")).mixed_precision == "bf16"
    have = with_package("NVIDIA L40S", "transformer_engine_cu12")
    assert decide(have, Job(precision="fp8")).mixed_precision == "fp8"
    assert choose_fp8_backend(have.values()) == "TE"
    assert choose_fp8_backend([*have.values(), l40s()]) == ""
    assert choose_fp8_backend(with_package("NVIDIA L40S", "torchao").values()) == "AO"


def test_a_literal_in_the_script_is_obeyed_when_nothing_else_was_asked() -> None:
    decision = on(["NVIDIA L40S"], script=reading(literal("fp16")))
    assert decision.mixed_precision == "fp16"
    assert decision.reasons[0].source == "train.py:12"
    assert any("native bf16" in reason.text for reason in decision.reasons)


def test_a_literal_that_the_hardware_cannot_do_is_refused_with_file_line_and_fix() -> None:
    with pytest.raises(
        PrecisionRefused, match=r"train\.py:12: Accelerator asks for bf16.*TITAN RTX"
    ) as refusal:
        on(["NVIDIA L40S", "NVIDIA TITAN RTX"], script=reading(literal("bf16")))
    assert "edit line 12" in refusal.value.fix


def test_a_literal_that_defeats_the_users_request_is_refused() -> None:
    with pytest.raises(PrecisionRefused, match=r"train\.py:12.*wins over the no") as refusal:
        on(["NVIDIA L40S"], "no", reading(literal("bf16", "TrainingArguments")))
    assert "line 12" in refusal.value.fix


def test_a_literal_equal_to_the_request_is_fine() -> None:
    assert on(["NVIDIA L40S"], "bf16", reading(literal("bf16"))).mixed_precision == "bf16"


def test_fp16_in_the_script_on_cpu_ranks_is_told_to_do_nothing() -> None:
    decision = decide({"plain": cpu_host()}, Job(gpus="none"), reading(literal("fp16")))
    assert decision.mixed_precision == "fp16"  # the value the ranks will report
    assert any("does nothing" in reason.text for reason in decision.reasons)


def test_a_bare_accelerator_takes_the_ceiling_and_is_told_not_to_detect() -> None:
    decision = on(["NVIDIA TITAN RTX"], script=reading(BARE, trained_dtype="float32"))
    assert decision.mixed_precision == "fp16"
    assert any("detects nothing" in reason.text for reason in decision.reasons)


@pytest.mark.parametrize(
    ("card", "dtype", "given"),
    [
        ("NVIDIA TITAN RTX", "float32", "fp16"),
        ("NVIDIA TITAN RTX", "bfloat16", "no"),
        ("NVIDIA TITAN RTX", "checkpoint", "no"),
        ("NVIDIA L40S", "bfloat16", "bf16"),
        ("NVIDIA L40S", "checkpoint", "bf16"),
    ],
)
def test_fp16_is_not_chosen_for_parameters_its_scaler_refuses(
    card: str, dtype: Any, given: Precision
) -> None:
    script = reading(BARE, trained_dtype=dtype, trained_dtype_evidence="train.py:8: from_pretrained(...)")
    assert on([card], script=script).mixed_precision == given


def test_fp16_asked_for_by_name_is_given_whatever_the_parameters() -> None:
    script = reading(BARE, trained_dtype="checkpoint")
    assert on(["NVIDIA TITAN RTX"], "fp16", script).mixed_precision == "fp16"


def test_deepspeed_is_told_to_decide_for_itself() -> None:
    decision = on(["NVIDIA L40S"], script=reading(manages_precision="train.py:3: import deepspeed"))
    assert any(
        "DeepSpeed" in reason.text and reason.source == "train.py:3: import deepspeed"
        for reason in decision.reasons
    )


def test_a_switch_among_the_scripts_own_arguments_is_a_request() -> None:
    table: dict[str, tuple[str, ...]] = {"fp16": ("--fp16",), "bf16": ("--bf16",)}
    job = Job(args=("--bf16", "--epochs", "3"), precision_args=table)
    decision = decide({"titan": titan()}, job)
    assert (decision.mixed_precision, decision.requested) == ("fp16", "bf16")
    found = Option("--fp16", "fp16", takes_value=False)
    kept = decide({"l40s-01": l40s()}, Job(args=("--fp16",)), reading(options=(found,)))
    assert kept.mixed_precision == "fp16"


def test_a_script_that_cannot_be_parsed_changes_nothing() -> None:
    assert (
        on(["NVIDIA L40S"], script=reading(literal("fp16"), problem="syntax error")).mixed_precision == "bf16"
    )


def test_two_different_literals_are_told_and_not_obeyed() -> None:
    decision = on(["NVIDIA L40S"], script=reading(literal("fp16"), literal("bf16")))
    assert decision.mixed_precision == "bf16"
    assert any("several precisions" in reason.text for reason in decision.reasons)


def test_a_gpu_without_a_readable_name_is_still_judged_by_capability() -> None:
    nameless: Gpu = gpu(0, name="NVIDIA L40S")
    found = find_hardware_limit(nameless)
    assert not isinstance(found, Missing)
    assert found.best == "bf16"


def test_a_refusal_ends_with_the_exit_code_of_a_refusal() -> None:
    with pytest.raises(PrecisionRefused) as refusal:
        on(["NVIDIA L40S"], "no", reading(literal("bf16")))
    assert refusal.value.exit_code == 1


def test_a_launch_is_on_the_cpu_only_when_every_rank_is() -> None:
    hosts = {"plain": cpu_host(), "titan": host("titan", [gpu(0)])}
    ranks = {
        "plain": NodeRanks((RankSlot(0, None, None),), False, ()),
        "titan": NodeRanks((RankSlot(0, "GPU-titan-0", 0),), False, ()),
    }
    assert precision.decide_precision(hosts, Job(), None, ranks).mixed_precision == "fp16"


def test_a_gpu_that_takes_no_part_hides_none_behind_it() -> None:
    facts = host("titan", [gpu(0), gpu(1, "NVIDIA L40S")])
    assert decide({"titan": facts}, Job(gpus=(1,))).mixed_precision == "bf16"


@pytest.mark.parametrize(
    ("cards", "wanted", "named", "given"),
    [
        (["NVIDIA A100-SXM4-40GB", "Tesla T4"], "fp8", "Tesla T4", "fp16"),  # both refuse: the weakest
        (["Tesla P100-PCIE-16GB", "Tesla P40"], "fp16", "Tesla P40", "no"),  # the weakest could
        (["NVIDIA H100 80GB HBM3", "NVIDIA L40S", "NVIDIA B200"], "bf16", "", "bf16"),
    ],
)
def test_the_gpu_that_refuses_a_request_is_named_first(
    cards: list[str], wanted: PrecisionRequest, named: str, given: Precision
) -> None:
    decision = on(cards, wanted)
    assert decision.mixed_precision == given
    assert decision.requested == (wanted if named else "")
    assert named in decision.reasons[0].text


def test_a_capability_that_no_row_has_gives_no_mixed_precision() -> None:
    found = find_hardware_limit(replace(gpu(0), capability=(-1, 0)))
    assert not isinstance(found, Missing)
    assert (found.best, found.on_request) == ("no", frozenset({"no"}))
