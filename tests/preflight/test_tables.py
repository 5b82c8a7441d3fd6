"""Tables of numbers and names, compared with what the systems that they are about use."""

import errno
import re

import pytest

from preflight.checks.minimum_drivers import find_minimum_driver
from preflight.checks.wheels import find_wheel, runs_on
from preflight.decide.batch_sizes import BatchSizes, find_nearest_multiples
from preflight.diagnosis.diagnose import diagnose
from preflight.diagnosis.explain import explain_signature
from preflight.diagnosis.host_evidence import Context
from preflight.diagnosis.live_diagnosis import LiveDiagnosis
from preflight.diagnosis.signature_matcher import _BY_ERRNO
from preflight.diagnosis.signatures.model import (
    expand_branch,
    find_longest_literal,
    select_literals,
    split_branches,
)
from preflight.diagnosis.signatures.table import NOTICES
from preflight.facts.host import KernelLog, Xid
from preflight.facts.missing import Missing
from preflight.probes.fact import missing
from preflight.probes.nvidia_smi.capability import find_capability

# --- wheels of torch ---

GPUS = (
    (3, 5), (3, 7), (5, 0), (5, 2), (6, 0), (6, 1), (7, 0), (7, 2), (7, 5),
    (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1),
)  # fmt: skip
FULL = {(5, 0), (5, 2), (6, 0), (6, 1), (7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0)}
TURING = {(7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (10, 3), (12, 0), (12, 1)}


@pytest.mark.parametrize(
    ("builds", "gpus"),
    [
        ("2.3+11.8 2.4+11.8 2.5+11.8 2.6+11.8", {(3, 7), *FULL}),
        ("2.3+12.1 2.5+12.1 2.4+12.4 2.6+12.4 2.6+12.6 2.14+12.6 2.7+11.8", FULL),
        ("2.7+12.8 2.11+12.8 2.9+13.0 2.14+13.0 2.12+13.2 2.14+13.2", TURING),
        ("2.8+12.8 2.9+12.8 2.10+12.8 2.8+12.9", {(7, 0), *TURING}),
        (
            (
                "2.2+11.8 2.2+12.1 2.6+12.1 2.3+12.4 2.7+12.4 2.5+12.6 2.15+12.6 2.8+11.8 2.6+12.8 2.12+12.8"
                " 2.7+12.9 2.9+12.9 2.8+13.0 2.15+13.0 2.11+13.2 2.15+13.2 2+12.8 2.8+12"
            ),
            None,
        ),
    ],
)
def test_a_wheel_of_torch_runs_on_the_gpus_of_its_kernels(
    builds: str, gpus: set[tuple[int, int]] | None
) -> None:
    for build in builds.split():
        version, _, cuda = build.partition("+")
        wheel = find_wheel(version, cuda)
        assert (wheel is None) == (gpus is None), build
        if wheel and gpus:
            assert {gpu for gpu in GPUS if runs_on(wheel, gpu)} == gpus, build


@pytest.mark.parametrize(
    ("build", "newer"),
    [("2.7+12.8", True), ("2.8+12.9", True), ("2.9+13.0", True), ("2.12+13.2", True), ("2.8+12.8", False)],
)
def test_a_wheel_with_ptx_runs_on_gpus_to_come(build: str, *, newer: bool) -> None:
    version, _, cuda = build.partition("+")
    wheel = find_wheel(version, cuda)
    assert wheel is not None
    assert runs_on(wheel, (13, 0)) is newer


@pytest.mark.parametrize("version", ["2.8.0a0+git12", "2.8.0.dev20260101", "", "2"])
def test_a_build_that_nobody_published_is_unknown(version: str) -> None:
    assert find_wheel(version, "12.8") is None


@pytest.mark.parametrize(
    ("cuda", "driver"),
    [
        ("13.2", "580"),
        ("13", "580"),
        ("12.1", "525.60.13"),
        ("11.8", "450.80.02"),
        ("10.2", ""),
        ("14.0", ""),
    ],
)
def test_a_cuda_has_its_oldest_driver(cuda: str, driver: str) -> None:
    assert find_minimum_driver(cuda) == driver


# --- names of GPUs ---

NAMED = {
    (12, 1): "NVIDIA GB10",
    (10, 3): "NVIDIA B300|NVIDIA GB300",
    (10, 0): "NVIDIA B200|NVIDIA GB200|NVIDIA B100",
    (
        12,
        0,
    ): "NVIDIA RTX PRO 6000 Blackwell Workstation Edition|NVIDIA GeForce RTX 5090|NVIDIA GeForce RTX 5050",
    (9, 0): "NVIDIA H100 80GB HBM3|NVIDIA H200|NVIDIA GH200 480GB|NVIDIA H20",
    (8, 9): "NVIDIA L4|NVIDIA L40S|NVIDIA GeForce RTX 4090|NVIDIA RTX 6000 Ada Generation",
    (8, 0): "NVIDIA A100-SXM4-80GB|NVIDIA A30",
    (8, 6): "NVIDIA A10G|NVIDIA A40|NVIDIA GeForce RTX 3090|NVIDIA RTX A6000|NVIDIA GeForce RTX 2050",
    (7, 5): "Tesla T4|TITAN RTX|NVIDIA GeForce RTX 2080 Ti|Quadro RTX 6000|NVIDIA GeForce GTX 1660",
    (7, 0): "Tesla V100-SXM2-32GB|NVIDIA TITAN V",
    (6, 0): "Tesla P100-PCIE-16GB",
    (6, 1): "Tesla P40|GeForce GTX 1080 Ti|TITAN Xp|Quadro P2000",
    (5, 2): "Tesla M60|GeForce GTX 980",
    (5, 0): "GeForce GTX 750 Ti",
    (3, 7): "Tesla K80",
    (3, 5): "Tesla K40m|Tesla K20Xm|Tesla K20c",
}


@pytest.mark.parametrize(("pair", "names"), NAMED.items(), ids=map(str, NAMED))
def test_a_gpus_name_says_its_capability(pair: tuple[int, int], names: str) -> None:
    assert [find_capability({}, name) for name in names.split("|")] == [list(pair)] * len(names.split("|"))


def test_what_is_printed_wins_and_what_is_cut_is_not_read() -> None:
    unknown = missing("nvidia-smi -q does not print it and the name does not reveal it", "not-asked")
    assert find_capability({"compute_cap": "8.6"}, "NVIDIA H100") == [8, 6]
    assert find_capability({"product_architecture": "Turing"}, "NVIDIA GeForce ...") == [7, 5]
    assert find_capability({"product_architecture": "Hopper"}, None) == [9, 0]
    assert find_capability({"product_architecture": "Ada Lovelace"}, "a new one") == [8, 9]
    assert find_capability({}, "NVIDIA H100...") == find_capability({}, "a new one") == unknown


# --- numbers of the kernel, of Xids and of notices ---


def test_errors_of_the_system_are_those_of_linux() -> None:
    names = (
        "ENOENT EIO EACCES EPERM EAGAIN ENOMEM ENOTDIR EISDIR ENFILE EMFILE ENOSPC EROFS EPIPE EADDRINUSE"
        " ENETUNREACH ECONNRESET ENOTCONN ETIMEDOUT ECONNREFUSED EHOSTUNREACH ESTALE EUCLEAN EREMOTEIO EDQUOT"
        " EINVAL EADDRNOTAVAIL"
    )
    assert set(_BY_ERRNO) == {getattr(errno, name) for name in names.split()}


FAULTS = (46, 48, 61, 62, 64, 74, 79, 94, 95, 109, 110, 119, 120, 136, 140, 143, 145, 149, 154, 158)


def test_only_xids_of_a_broken_gpu_are_a_cause() -> None:
    error = "RuntimeError: NCCL error in: x.cpp:1, unhandled cuda error, NCCL version 2.20\n"
    named = []
    for code in range(1, 160):
        kernel = KernelLog("dmesg", (Xid(code, "0000:3b:00.0", Missing("none"), "Xid"),), (), ())
        if "S40" in {cause.code for cause in diagnose(error, Context(kernel_logs=(kernel,))).causes}:
            named.append(code)
    assert tuple(named) == FAULTS


def test_notices_that_may_not_be_ignored() -> None:
    assert {row.code for row in NOTICES if not row.safe} == {"W02", "W10", "W15", "W18", "W19", "W22"}


# --- literals of patterns ---


@pytest.mark.parametrize(
    ("pattern", "parts"),
    [
        ("a|b", ["a", "b"]),
        (r"a\|b|c", [r"a\|b", "c"]),
        ("[|]a|b", ["[|]a", "b"]),
        (r"[\]|]a|b", [r"[\]|]a", "b"]),
        ("[]|]a|b", ["[]|]a", "b"]),
        ("(a|b)c|(?:d|(e|f))", ["(a|b)c", "(?:d|(e|f))"]),
        ("|a", ["", "a"]),
    ],
)
def test_a_pattern_is_split_at_its_outer_bars(pattern: str, parts: list[str]) -> None:
    assert split_branches(pattern) == parts


@pytest.mark.parametrize(
    ("branch", "literal"),
    [
        ("out of memory", "out of memory"),
        (r"out of memory\.", "out of memory."),
        (r"\d+ out of memory", " out of memory"),
        ("abcdef?ghijklm", "ghijklm"),
        ("abcdefgh+ij", "abcdefgh"),
        ("abcdefghi*jk", "abcdefgh"),
        ("abcdefghi{2}jk", "abcdefgh"),
        ("abcd(?:efgh)ijklmn", "ijklmn"),
        ("abcdef[gh]+ij", "abcdef"),
        ("^abcdefg$", "abcdefg"),
        ("a.b", ""),
    ],
)
def test_the_longest_text_that_every_match_holds(branch: str, literal: str) -> None:
    assert find_longest_literal(branch) == literal


@pytest.mark.parametrize(
    ("branch", "literals"),
    [
        ("out of memory", ("out of memory",)),
        (r"Error: .{0,9}(?:mesh|[Rr]anks)", ("mesh", "anks")),
        (r"Exception .{0,9}(?:401|403) (?:Forbidden|Denied)", ("Forbidden", "Denied")),
        (r"rror.*(?:a|bcd)", ("rror",)),
        (r"Error: (?:mesh|ranks)?", ("Error: ",)),
        (r"\bEI\d", ("EI",)),
        (r"\d(?:abcde|x(?:fg|hij))", ("abcde", "fg", "hij")),
    ],
)
def test_the_texts_of_which_each_match_holds_one(branch: str, literals: tuple[str, ...]) -> None:
    assert select_literals(branch) == literals


@pytest.mark.parametrize(
    ("branch", "several"),
    [
        ("out of memory", ["out of memory"]),
        (r"\d(?:abcdefg|hijklmn)\d", [r"\dabcdefg\d", r"\dhijklmn\d"]),
        (r"\d(?:abcdefg|hijklmn)?\d", [r"\d(?:abcdefg|hijklmn)?\d"]),
        (r"\d(?:abcdefg|hijklmn)+\d", [r"\d(?:abcdefg|hijklmn)+\d"]),
        (r"\d(abcdefg|hijklmn)\d", [r"\d(abcdefg|hijklmn)\d"]),
        (r"\((?:abcdefg|hijklmn)", [r"\(abcdefg", r"\(hijklmn"]),
        (r"[(](?:abcdefg|hijklmn)", [r"[(]abcdefg", r"[(]hijklmn"]),
        (r"(a)(?:abcdefg|hijklmn)", [r"(a)abcdefg", r"(a)hijklmn"]),
        (r"(?:\d|(?:abcdefg|hijklmn))", [r"\d", "abcdefg", "hijklmn"]),
        (r"\d", [r"\d"]),
    ],
)
def test_a_branch_without_a_text_is_written_as_several(branch: str, several: list[str]) -> None:
    assert expand_branch(branch) == several
    for sample in ("1abcdefg1", "1hijklmn1", "(abcdefg", "ahijklmn", "11", "out of memory"):
        assert bool(re.search(branch, sample)) == any(re.search(each, sample) for each in several)


# --- DeepSpeed's batch ---

TRAIN, MICRO, STEPS = BatchSizes.NAMES


@pytest.mark.parametrize(
    ("given", "micro", "accumulation", "product", "unit", "said"),
    [
        ({TRAIN: 64}, 16, 1, 64, 4, "4 ranks"),
        ({TRAIN: 64, STEPS: 2}, 8, 2, 64, 8, "2 (accumulation) x 4 ranks = 8"),
        ({TRAIN: 64, MICRO: 8}, 8, 2, 64, 32, "8 (micro batch) x 4 ranks = 32"),
        ({MICRO: 8}, 8, 1, 32, 32, "8 (micro batch) x 4 ranks = 32"),
        ({MICRO: 8, STEPS: 3}, 8, 3, 96, 96, "8 (micro batch) x 3 (accumulation) x 4 ranks = 96"),
        ({TRAIN: 60, MICRO: 8, STEPS: 2}, 8, 2, 64, 64, "8 (micro batch) x 2 (accumulation) x 4 ranks = 64"),
        ({TRAIN: 64, MICRO: 0}, 0, 16, 0, 0, "0 (micro batch) x 4 ranks = 0"),
    ],
)
def test_two_batch_sizes_give_the_third(
    given: dict[str, int], micro: int, accumulation: int, product: int, unit: int, said: str
) -> None:
    sizes = BatchSizes.of({**given, "other": 7, TRAIN: given.get(TRAIN, "auto")}, 4)
    assert (sizes.micro, sizes.accumulation, sizes.product) == (micro, accumulation, product)
    assert (sizes.unit, sizes.said_unit) == (unit, said)


@pytest.mark.parametrize(("number", "both"), [(10, (8, 12)), (8, (8, 12)), (3, (0, 4))])
def test_the_nearest_multiples_are_below_and_above(number: int, both: tuple[int, int]) -> None:
    assert find_nearest_multiples(number, 4) == both


# --- a live run ---


@pytest.mark.parametrize(
    ("steps", "codes"),
    [
        (["loss: 2.0 grad_norm: nan"] * 3, ["S11"]),
        (["loss: 0.0 grad_norm: nan"] * 2, ["S12"]),
        (["loss: nan"] * 3, ["S11"]),
        (["loss: 2.0 grad_norm: 1.0"] * 9, []),
        (["loss_scale: 0.0005"] * 3, ["S23"]),
        (["loss_scale: 2.0"] * 3, []),
    ],
)
def test_a_live_run_is_judged_where_a_step_looks_bad(steps: list[str], codes: list[str]) -> None:
    live = LiveDiagnosis()
    found = [live.feed(f"step {n} {text}", 0, "a") for n, text in enumerate(steps)]
    assert [warning.code for each in found for warning in each] == codes


def test_a_notice_is_explained_with_the_line_that_it_is_about() -> None:
    said = [explain_signature(row.code) or "" for row in NOTICES]
    assert all(
        f"\nThe line matches: {row.pattern.pattern}\n" in text
        for row, text in zip(NOTICES, said, strict=True)
    )
    assert (explain_signature("W02") or "").endswith("matches: None of the inputs have requires_grad=True\n")
