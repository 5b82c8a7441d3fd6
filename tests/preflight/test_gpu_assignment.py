"""Which GPU each local rank gets, and whether it sees the others."""

from dataclasses import replace
from typing import Any

import pytest

from preflight.decide.decision import NodeRanks
from preflight.decide.gpu_assignment import RanksRefused, map_ranks
from preflight.decide.gpu_signs import resolve_gpus
from preflight.facts.gpu import ComputeProcess, Gpu, GpuClaim
from preflight.facts.host import HostFacts, Identity
from preflight.facts.missing import Fact, Missing
from preflight.facts.script import ScriptAnalysis
from preflight.job import CommandRequest, GpuRequest, Job
from tests.hardware import cpu_host, gpu, host, titan

UNKNOWN = Missing("driver did not say", "error")


def process(pid: int, kind: Any = "compute") -> ComputeProcess:
    return ComputeProcess(pid, kind, 100, "python")


def test_a_gpu_that_a_live_run_claims_is_taken_last() -> None:
    uuid = four().gpus[0].uuid  # type: ignore[index]
    claim = GpuClaim(str(uuid), "other", "ana", 1000, 4242, 1.0)
    ranks = map_ranks(replace(four(), claims=(claim,)), Job(gpus=2), None)
    assert [slot.gpu_index for slot in ranks.slots] == [1, 2]
    assert any("GPU 0 of titan is claimed by run other of ana" in reason.text for reason in ranks.reasons)


def box(*gpus: Gpu) -> HostFacts:
    return host("titan", gpus)


def four(**held: Fact[tuple[ComputeProcess, ...]]) -> HostFacts:
    return box(*(gpu(i, processes=held.get(f"gpu{i}", ())) for i in range(4)))


def indices(ranks: NodeRanks) -> list[int | None]:
    return [slot.gpu_index for slot in ranks.slots]


def test_all_means_one_rank_per_gpu_in_pci_order() -> None:
    ranks = map_ranks(host("titan", [gpu(1), gpu(0), gpu(2)]), Job())
    assert [(slot.local_rank, slot.gpu_uuid) for slot in ranks.slots] == [
        (0, "GPU-titan-0"),
        (1, "GPU-titan-1"),
        (2, "GPU-titan-2"),
    ]


def test_free_gpus_are_taken_before_held_ones() -> None:
    ranks = map_ranks(four(gpu0=(process(9),)), Job(gpus=2))
    assert indices(ranks) == [1, 2]
    assert any("GPU 0 of titan is held by pid 9" in reason.text for reason in ranks.reasons)


def test_a_held_gpu_is_taken_when_there_are_no_others_and_that_is_said() -> None:
    ranks = map_ranks(four(gpu0=(process(9),)), Job(gpus=4))
    assert indices(ranks) == [0, 1, 2, 3]
    assert any(reason.source == "held by others" for reason in ranks.reasons)


def test_a_desktop_on_a_gpu_does_not_hold_it() -> None:
    assert indices(map_ranks(four(gpu0=(process(9, "graphics"),)), Job(gpus=1))) == [0]


@pytest.mark.parametrize(
    "broken",
    [
        {"compute_mode": "prohibited"},
        {"mig_enabled": True},
        {"recovery_action": "gpu_reset"},
        {"recovery_action": "node_reboot"},
        {"memory": Missing("GPU is lost", "gpu-lost")},
        {"memory": Missing("reset required", "reset-required")},
        {"uuid": Missing("GPU is lost", "gpu-lost")},
    ],
)
def test_a_gpu_that_cannot_work_is_left_out_and_never_given_by_name(broken: dict[str, Any]) -> None:
    facts = box(gpu(0, **broken), gpu(1))
    ranks = map_ranks(facts, Job())
    assert indices(ranks) == [1]
    assert ranks.reasons[0].source == "left out"
    with pytest.raises(RanksRefused, match="GPU 0"):
        map_ranks(facts, Job(gpus=(0,)))
    with pytest.raises(RanksRefused, match="2 GPUs were asked for and 1 can be used"):
        map_ranks(facts, Job(gpus=2))


def test_gpus_by_index_or_uuid_keep_the_order_given() -> None:
    assert indices(map_ranks(four(), Job(gpus=(3, "GPU-titan-1")))) == [3, 1]
    assert indices(map_ranks(four(), Job(gpus=("2",)))) == [2]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ((7,), "no GPU called 7; it has 0"),
        (("GPU-x",), "no GPU called GPU-x"),
        (("GPU-titan",), "more than one"),
        ((1, "GPU-titan-1"), "listed twice"),
    ],
)
def test_a_gpu_that_is_not_there_is_refused_by_name(wanted: GpuRequest, message: str) -> None:
    with pytest.raises(RanksRefused, match=message) as refusal:
        map_ranks(four(), Job(gpus=wanted))
    assert ("gpus: in the run config" in refusal.value.fix) is ("called" in refusal.value.message)


def test_the_inventory_limits_what_a_launch_may_use() -> None:
    assert indices(map_ranks(four(), Job(), allowed=(2, 3))) == [2, 3]
    assert indices(map_ranks(four(), Job(gpus=1), allowed=(2, 3))) == [2]
    assert indices(map_ranks(four(), Job(), allowed=2)) == [0, 1]
    with pytest.raises(RanksRefused, match="no GPU called 0; it has 2"):
        map_ranks(four(), Job(gpus=(0,)), allowed=(2, 3))
    with pytest.raises(RanksRefused, match="gpus leaves it no GPU"):
        map_ranks(four(), Job(), allowed="none")


def test_a_host_without_usable_gpus_says_why() -> None:
    with pytest.raises(RanksRefused, match="NVML cannot be loaded"):
        map_ranks(cpu_host(), Job())
    with pytest.raises(RanksRefused, match=r"no usable GPU.*Prohibited"):
        map_ranks(box(gpu(0, compute_mode="prohibited")), Job())
    with pytest.raises(RanksRefused, match="it has none"):
        map_ranks(box(), Job())


def test_cpu_ranks_need_neither_driver_nor_gpu() -> None:
    ranks = map_ranks(cpu_host(), Job(gpus="none", processes_per_host=3))
    assert [slot.gpu_uuid for slot in ranks.slots] == [None, None, None]
    assert not ranks.single_gpu_visible


def test_auto_is_gpus_where_there_are_any_and_cpu_ranks_otherwise() -> None:
    auto = Job(gpus="auto")
    assert resolve_gpus(auto, [cpu_host()]).gpus == "none"
    assert resolve_gpus(auto, [cpu_host(), titan()]).gpus == "all"
    assert resolve_gpus(auto, [box()]).gpus == "none"
    assert resolve_gpus(auto, [cpu_host()]).gpus_by_auto
    given = resolve_gpus(Job(gpus=2), [cpu_host()])
    assert given.gpus == 2
    assert not given.gpus_by_auto


def test_auto_does_not_hide_a_broken_driver() -> None:
    broken = host("titan", Missing("driver/library version mismatch", "library-mismatch"), pci_gpus=UNKNOWN)
    assert resolve_gpus(Job(gpus="auto"), [broken]).gpus == "all"


def exclusive(*changes: dict[str, Any]) -> HostFacts:
    return box(*(gpu(i, compute_mode="exclusive_process", **change) for i, change in enumerate(changes)))


def script(places: str) -> ScriptAnalysis:
    return ScriptAnalysis("train.py", "torch", places, (), ())


def test_exclusive_process_masks_ranks_of_an_unproven_script() -> None:
    for reading in (None, script("")):
        ranks = map_ranks(exclusive({}, {}), Job(), reading)
        assert ranks.single_gpu_visible
        assert "not proven" in ranks.reasons[-1].text


def test_exclusive_process_shares_the_list_when_the_script_places_its_device() -> None:
    ranks = map_ranks(exclusive({}, {}), Job(), script("train.py:31: torch.cuda.set_device(local_rank)"))
    assert not ranks.single_gpu_visible
    assert ranks.reasons[-1].source == "train.py:31: torch.cuda.set_device(local_rank)"


def test_mps_shares_exclusive_gpus() -> None:
    assert not map_ranks(exclusive({"processes": (process(5, "mps"),)}, {}), Job()).single_gpu_visible


def test_default_compute_mode_is_not_masked() -> None:
    assert not map_ranks(four(), Job()).single_gpu_visible


def test_an_unread_compute_mode_is_treated_as_exclusive() -> None:
    assert map_ranks(box(gpu(0, compute_mode=UNKNOWN), gpu(1)), Job()).single_gpu_visible


def test_one_rank_needs_no_mask() -> None:
    assert not map_ranks(exclusive({}), Job()).single_gpu_visible


@pytest.mark.parametrize(
    ("driver", "bus", "given"),
    [
        ("no-library", (), "none"),
        ("no-library", None, "none"),  # the bus cannot be read, and nothing speaks of a driver
        ("no-devices", (), "all"),  # only a driver that runs says so: its GPU has gone
        ("timeout", None, "all"),  # nothing says that there is none
        ("timeout", (), "all"),  # a bus without GPUs (WSL2 has one) hangs no driver
        ("not-loaded", (), "none"),  # a library that came with another package, and no GPU
        ("no-library", ("0000:65:00.0",), "all"),  # a card without its driver must be reported
    ],
)
def test_auto_goes_by_the_bus_and_without_it_by_what_nvml_answers(
    driver: Any, bus: tuple[str, ...] | None, given: str
) -> None:
    gpus = Missing("no answer", driver)
    pci: Any = Missing("denied", "no-permission") if bus is None else bus
    facts = host("titan", gpus, pci_gpus=pci)
    assert resolve_gpus(Job(gpus="auto"), [facts]).gpus == given


@pytest.mark.parametrize("trace", [{"nvidia_module": "580.65"}, {"gpu_device_files": ("/dev/nvidia0",)}])
def test_auto_does_not_train_on_the_cpu_where_a_trace_of_gpus_is_left(trace: dict[str, Any]) -> None:
    bare = cpu_host()
    assert isinstance(bare.identity, Identity)
    facts = replace(bare, pci_gpus=(), identity=replace(bare.identity, **trace))
    assert resolve_gpus(Job(gpus="auto"), [facts]).gpus == "all"
    assert resolve_gpus(Job(gpus="auto"), [replace(bare, pci_gpus=())]).gpus == "none"


@pytest.mark.parametrize(("count", "words"), [(1, "1 CPU rank on plain"), (2, "2 CPU ranks on plain")])
def test_one_cpu_rank_is_enough(count: int, words: str) -> None:
    ranks = map_ranks(cpu_host(), Job(gpus="none", processes_per_host=count))
    assert [slot.local_rank for slot in ranks.slots] == list(range(count))
    assert [reason.text for reason in ranks.reasons] == [words]


def test_no_cpu_rank_is_refused_with_the_exit_code_of_a_refusal() -> None:
    with pytest.raises(RanksRefused, match="processes_per_host does not say") as refusal:
        map_ranks(cpu_host(), Job(gpus="none", processes_per_host={"other": 1}))
    assert refusal.value.exit_code == 1


def test_a_rank_is_shown_with_the_name_of_its_gpu_where_there_is_one() -> None:
    ranks = map_ranks(box(gpu(0), gpu(1, "NVIDIA L40S"), replace(gpu(2), name=UNKNOWN)), Job())
    assert [slot.gpu_name for slot in ranks.slots] == ["NVIDIA TITAN RTX", "NVIDIA L40S", ""]


def test_a_refusal_lists_the_gpus_as_they_were_named() -> None:
    with pytest.raises(RanksRefused, match=r"no GPU called 7; it has 0, 1$"):
        map_ranks(box(gpu(0), gpu(1)), Job(gpus=(7,)))
    with pytest.raises(RanksRefused, match=r"called GPU-x; it has 0 \(GPU-titan-0\), 1 \(GPU-titan-1\)$"):
        map_ranks(box(gpu(0), gpu(1)), Job(gpus=("GPU-x",)))
    with pytest.raises(RanksRefused, match=r"called GPU-x; it has 0$"):
        map_ranks(box(gpu(0, uuid=UNKNOWN)), Job(gpus=("GPU-x",)))


def test_too_few_gpus_are_refused_with_those_that_are_left_out() -> None:
    with pytest.raises(RanksRefused, match=r"3 GPUs were asked for and 2 can be used$"):
        map_ranks(box(gpu(0), gpu(1)), Job(gpus=3))
    with pytest.raises(RanksRefused, match=r"and 1 can be used \(GPU 1 of titan is split by MIG.*\)$"):
        map_ranks(box(gpu(0), gpu(1, mig_enabled=True)), Job(gpus=2))


@pytest.mark.parametrize("wanted", [2, (0, 1)])
def test_only_a_held_gpu_is_said_to_be_held(wanted: GpuRequest) -> None:
    def held(**processes: Fact[tuple[ComputeProcess, ...]]) -> list[str]:
        facts = box(*(gpu(i, processes=processes.get(f"gpu{i}", ())) for i in (0, 1)))
        because = map_ranks(facts, Job(gpus=wanted)).reasons
        return [reason.text for reason in because if reason.source == "held by others"]

    assert held() == []
    assert held(gpu1=(process(7), process(9))) == ["GPU 1 of titan is held by pid 7, 9"]


@pytest.mark.parametrize(
    ("mode", "source"),
    [("exclusive_process", "Exclusive Process mode"), (UNKNOWN, "a compute mode that could not be read")],
)
def test_the_reason_of_a_mask_is_the_mode_that_made_it_necessary(mode: Any, source: str) -> None:
    ranks = map_ranks(box(gpu(0, compute_mode=mode), gpu(1, compute_mode=mode)), Job())
    assert (ranks.single_gpu_visible, ranks.reasons[-1].source) == (True, source)


def test_a_command_gets_free_gpus_up_to_its_count_and_what_is_left_out_is_said() -> None:
    facts = box(gpu(0), gpu(1, mig_enabled=True), gpu(2, processes=(process(9),)), gpu(3))

    def given(count: int, gpus: GpuRequest = "all") -> NodeRanks:
        return map_ranks(facts, Job(gpus=gpus, command=CommandRequest(ranks_per_host=count)), None)

    def left_out(ranks: NodeRanks) -> list[str]:
        return [reason.text.split()[1] for reason in ranks.reasons if reason.source == "left out"]

    assert (indices(given(1)), left_out(given(1))) == ([0], [])
    assert (indices(given(2)), left_out(given(2))) == ([0, 3], []), "none is lacking: none to be sorry for"
    assert (indices(given(4)), left_out(given(4))) == ([0, 3], ["1", "2"])
    assert (indices(given(4, (3, 2))), left_out(given(4, (3, 2)))) == ([3], ["2"])
    assert indices(given(1, 2)) == [0, 3], "a count that gpulaunch is given wins over the command's"


def test_a_command_without_a_free_gpu_is_refused_with_what_is_left_out() -> None:
    job = Job(command=CommandRequest(ranks_per_host=2))
    with pytest.raises(RanksRefused, match=r"no GPU is free: GPU 0 of titan is held by pid 9$"):
        map_ranks(box(gpu(0, processes=(process(9),))), job, None)
    with pytest.raises(RanksRefused, match=r"no GPU is free: the command leaves out all of its GPUs$"):
        map_ranks(
            box(gpu(0)),
            replace(job, command=CommandRequest(ranks_per_host=2, exclude_gpus={"titan": (0,)})),
            None,
        )
