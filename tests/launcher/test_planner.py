"""A plan: who runs where, under which precision, meeting on which address and port, and what was changed."""

import json
from dataclasses import replace
from typing import Any

import pytest

from launcher.config.inventory import HostEntry
from launcher.errors import LaunchRefused
from launcher.planning.main_address_and_port import choose_interface, choose_main_port
from launcher.planning.plan import Plan, ScriptFile
from launcher.planning.planner import build_plan
from launcher.planning.run_record import build_run_record
from launcher.report.plan import change_text, encode_plan, render_plan
from preflight.facts.host import BindTest, HostFacts, Interface, Network, Ports, Process, ProcessTable, Socket
from preflight.facts.missing import Missing
from preflight.job import Job
from tests.hardware import cpu_host, gpu, host, l40s, titan

TABLE: dict[str, tuple[str, ...]] = {"fp16": ("--fp16",), "bf16": ("--bf16",)}
NO_NETWORK = Missing("no /proc/net", "error")


def plan(job: Job, *hosts: HostFacts, **options: Any) -> Plan:
    pairs = [(HostEntry(facts.host, python="/opt/venv/bin/python"), facts) for facts in hosts]
    return build_plan(pairs, job, run_id="run-1", **options)


def changes(made: Plan) -> list[str]:
    return [change_text(change) for change in made.changes]


def test_unequal_hosts_make_one_world_with_contiguous_ranks() -> None:
    made = plan(Job(script="train.py"), titan(4), l40s(2), titan(1, "t2", "10.77.0.4"))
    assert made.world_size == 7
    assert [(node.host, node.node_rank, node.first_rank) for node in made.nodes] == [
        ("titan", 0, 0),
        ("l40s-01", 1, 4),
        ("t2", 2, 6),
    ]


def test_a_number_of_processes_that_is_not_that_of_the_ranks_is_explained() -> None:
    uneven = plan(Job(script="train.py"), titan(2), l40s(1))
    assert uneven.world_size == 3
    assert (
        "num_processes: 2 starts 1 rank on it, as accelerate divides the number by the 2 hosts"
        in render_plan(uneven)
    )
    assert "the world is 3 ranks" in render_plan(uneven)
    assert "num_processes: 2 starts" not in render_plan(plan(Job(script="train.py"), titan(2), l40s(2)))


def test_an_overruled_precision_is_shown_as_old_new_and_why() -> None:
    made = plan(Job(script="train.py", precision="bf16"), titan())
    assert changes(made) == ["--precision bf16 -> fp16: titan has TITAN RTX, compute capability 7.5"]
    assert made.changes[0].field in render_plan(made)


def test_the_script_is_told_the_same_precision() -> None:
    job = Job(script="train.py", args=("--bf16", "--epochs", "3"), precision_args=TABLE)
    made = plan(job, titan(), l40s())
    for node in made.nodes:
        assert node.argv[-4:] == ("train.py", "--epochs", "3", "--fp16")
    assert any(line.startswith("script arguments --bf16 -> --fp16:") for line in changes(made))


def test_auto_without_any_gpu_says_so() -> None:
    made = plan(Job(script="train.py", gpus="auto"), cpu_host())
    assert changes(made) == ["--gpus auto -> none: none of the hosts has a GPU"]
    assert made.precision.mixed_precision == "no"


# --- main address -----------------------------------------------------------------------


def address_of(*pairs: tuple[HostEntry, HostFacts]) -> str:
    return build_plan(pairs, Job(script="t.py", gpus="none"), run_id="r").main_address


def test_one_host_meets_on_loopback_whatever_its_network() -> None:
    assert address_of((HostEntry("a"), cpu_host("a"))) == "127.0.0.1"
    assert address_of((HostEntry("a"), replace(cpu_host("a"), network=NO_NETWORK))) == "127.0.0.1"


def test_several_hosts_meet_where_ssh_reached_the_main_host() -> None:
    assert (
        address_of((HostEntry("a"), cpu_host("a", "10.77.0.9")), (HostEntry("b"), cpu_host("b")))
        == "10.77.0.9"
    )


def two_networks() -> HostFacts:
    facts = cpu_host("a", "10.77.0.9")
    assert isinstance(facts.network, Network)
    fast = Interface(
        "ib0", ("fe80::1", "fd00::9", "192.168.5.9"), up=True, virtual=False, mtu=4096, speed_mbps=NO_NETWORK
    )
    return replace(facts, network=replace(facts.network, interfaces=(*facts.network.interfaces, fast)))


def test_the_interface_of_the_inventory_wins_and_ipv4_comes_first() -> None:
    entry = HostEntry("a", interface="ib0")
    made = build_plan(
        [(entry, two_networks()), (HostEntry("b"), cpu_host("b"))],
        Job(script="t.py", gpus="none"),
        run_id="r",
    )
    assert made.main_address == "192.168.5.9"
    assert made.nodes[0].env["GLOO_SOCKET_IFNAME"] == "ib0"
    assert made.nodes[0].env["NCCL_SOCKET_IFNAME"] == "=ib0"
    assert made.nodes[1].env["GLOO_SOCKET_IFNAME"] == "eth0"


def test_an_interface_that_is_not_there_is_refused() -> None:
    with pytest.raises(LaunchRefused, match="no network interface ib7; it has lo, eth0, ib0"):
        address_of((HostEntry("a", interface="ib7"), two_networks()), (HostEntry("b"), cpu_host("b")))


def loopback_only(name: str, boot: str) -> HostFacts:
    facts = cpu_host(name)
    assert not isinstance(facts.identity, Missing)
    lo = Interface("lo", ("127.0.0.1",), up=True, virtual=True, mtu=65536, speed_mbps=NO_NETWORK)
    return replace(
        facts,
        identity=replace(facts.identity, boot_id=boot),
        network=Network((lo,), NO_NETWORK, ("127.0.1.1",), "127.0.0.1"),
    )


def test_loopback_is_never_the_meeting_place_of_two_machines() -> None:
    pairs = [(HostEntry(name), loopback_only(name, name)) for name in "ab"]
    with pytest.raises(LaunchRefused, match="on loopback only") as refusal:
        address_of(*pairs)
    assert "interface:" in refusal.value.fix


def test_loopback_will_do_for_two_nodes_on_one_machine_without_another_network() -> None:
    assert address_of(*((HostEntry(name), loopback_only(name, "same")) for name in "ab")) == "127.0.0.1"


def test_the_sockets_are_left_to_the_libraries_when_the_network_is_unknown() -> None:
    assert choose_interface(HostEntry("a"), replace(cpu_host("a"), network=NO_NETWORK)) == ""


# --- main port --------------------------------------------------------------------------


def with_ports(ports: Ports | Missing, **more: Any) -> HostFacts:
    return replace(titan(), ports=ports, **more)


def held(state: str = "LISTEN", *, ok: bool = False) -> Ports:
    return Ports(
        "proc",
        (Socket(29500, "0.0.0.0", state, 1001, (812,)),),
        (BindTest(29500, ok=ok, error="" if ok else "Address already in use"),),
        (43210, 43211),
        (32768, 60999),
    )


def test_a_taken_port_is_replaced_and_its_holder_is_named() -> None:
    table = ProcessTable("proc", (_process(812),), 1, 2, ())
    made = plan(Job(script="train.py"), with_ports(held(), processes=table))
    assert made.main_port == 43210
    assert changes(made) == ["--port 29500 -> 43210: port 29500 on titan: in use by pid 812 (python of ben)"]


def test_a_port_that_cannot_be_bound_is_replaced_even_if_nobody_is_seen_on_it() -> None:
    ports = Ports("proc", (), (BindTest(29500, ok=False, error="Permission denied"),), (43210,), (1, 2))
    assert choose_main_port(with_ports(ports), 29500, needed=True, avoid=frozenset()).reason.endswith(
        "Permission denied"
    )


def test_a_bound_port_that_does_not_listen_is_seen() -> None:
    assert choose_main_port(with_ports(held("BOUND")), 29500, needed=True, avoid=frozenset()).port == 43210


def test_an_old_connection_on_the_port_does_not_matter() -> None:
    assert (
        choose_main_port(with_ports(held("TIME_WAIT", ok=True)), 29500, needed=True, avoid=frozenset()).port
        == 29500
    )


def test_a_port_stolen_before_the_launch_is_not_tried_again() -> None:
    made = plan(Job(script="train.py"), titan(), avoid_ports=frozenset({29500, 43210}))
    assert made.main_port == 43211


def test_no_free_port_is_a_refusal() -> None:
    with pytest.raises(LaunchRefused, match="no free one was found"):
        plan(Job(script="train.py"), with_ports(replace(held(), free=())))


def test_ports_that_could_not_be_read_keep_the_asked_one_and_say_so() -> None:
    made = plan(Job(script="train.py"), with_ports(Missing("no /proc/net/tcp", "error")))
    assert made.main_port == 29500
    assert any("was not checked" in reason.text for reason in made.reasons)


def test_a_single_rank_opens_no_port_so_a_taken_one_changes_nothing() -> None:
    made = plan(Job(script="train.py", gpus=1), with_ports(held()))
    assert made.changes == ()


# --- environment ------------------------------------------------------------------------


def test_gpus_are_visible_by_uuid_in_pci_order() -> None:
    node = plan(Job(script="train.py"), titan()).nodes[0]
    assert node.env["CUDA_VISIBLE_DEVICES"] == "GPU-titan-0,GPU-titan-1"
    assert node.env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"


def test_cpu_ranks_see_no_gpu_and_use_the_gloo_path() -> None:
    node = plan(Job(script="train.py", gpus="none", processes_per_host=2), titan()).nodes[0]
    assert node.env["CUDA_VISIBLE_DEVICES"] == ""
    assert node.env["ACCELERATE_USE_CPU"] == "true"
    assert node.env["OMP_NUM_THREADS"] == "16"


def test_masked_ranks_are_told_to_the_guard() -> None:
    exclusive = host("x", [gpu(i, host="x", compute_mode="exclusive_process") for i in range(2)])
    assert plan(Job(script="train.py"), exclusive).nodes[0].env["GPULAUNCH_MASK"] == "1"
    assert "GPULAUNCH_MASK" not in plan(Job(script="train.py"), titan()).nodes[0].env


def test_the_users_environment_arrives_but_not_where_the_plan_decides() -> None:
    job = Job(script="t.py", env={"NCCL_DEBUG": "INFO", "CUDA_VISIBLE_DEVICES": "0", "OMP_NUM_THREADS": "4"})
    made = plan(job, titan())
    env = made.nodes[0].env
    assert (env["NCCL_DEBUG"], env["OMP_NUM_THREADS"]) == ("INFO", "4")
    assert env["CUDA_VISIBLE_DEVICES"].startswith("GPU-")
    assert changes(made) == [
        "env CUDA_VISIBLE_DEVICES 0 -> (dropped): the launch sets it itself, from gpus, precision and hosts"
    ]


def test_a_run_keeps_the_id_that_it_is_recognised_by() -> None:
    job = Job(script="t.py", env={"GPULAUNCH_RUN_ID": "another", "GPULAUNCH_GUARD": "off"})
    made = plan(job, titan())
    env = made.nodes[0].env
    assert (env["GPULAUNCH_RUN_ID"], env["GPULAUNCH_GUARD"]) == (made.run_id, "stop")
    assert [text.partition(":")[0] for text in changes(made)] == [
        "env GPULAUNCH_GUARD off -> (dropped)",
        "env GPULAUNCH_RUN_ID another -> (dropped)",
    ]


def test_the_jobs_environment_wins_over_the_hosts() -> None:
    entry = HostEntry("a", env={"X": "host", "Y": "host"})
    made = build_plan([(entry, cpu_host("a"))], Job(script="t.py", gpus="none", env={"X": "job"}), run_id="r")
    assert (made.nodes[0].env["X"], made.nodes[0].env["Y"]) == ("job", "host")


# --- the rest ---------------------------------------------------------------------------


def test_the_same_machine_under_two_names_is_refused() -> None:
    twin = replace(titan(), host="10.77.0.1")
    with pytest.raises(LaunchRefused, match=r"titan and 10\.77\.0\.1 are the same machine"):
        plan(Job(script="train.py"), titan(), twin)


def test_no_host_is_a_refusal() -> None:
    with pytest.raises(LaunchRefused):
        build_plan([], Job(script="train.py"), run_id="r")


def test_a_sent_script_travels_in_the_run_directory() -> None:
    node = plan(Job(script="train.py"), titan(), sent=ScriptFile("train.py", "print(1)\n")).nodes[0]
    assert dict(node.files)["script/train.py"] == "print(1)\n"
    assert node.argv[-1] == "{run_dir}/script/train.py"


def test_the_working_directory_is_the_jobs_then_the_hosts() -> None:
    entry = HostEntry("a", workdir="/srv/a")
    job = Job(script="t.py", gpus="none")
    assert build_plan([(entry, cpu_host("a"))], job, run_id="r").nodes[0].cwd == "/srv/a"
    assert build_plan([(entry, cpu_host("a"))], replace(job, workdir="w"), run_id="r").nodes[0].cwd == "~/w"


@pytest.mark.parametrize(
    ("output", "there"), [("out/x", "/srv/a/out/x"), ("~/x", "~/x"), ("/data/x", "/data/x"), ("", "")]
)
def test_a_host_knows_where_the_script_writes_so_that_it_can_be_fetched(output: str, there: str) -> None:
    entry = HostEntry("a", workdir="/srv/a")
    job = Job(script="t.py", gpus="none", output=output)
    made = build_plan([(entry, cpu_host("a"))], job, run_id="r")
    assert build_run_record(made, made.nodes[0], (entry,))["output"] == there


def test_the_plan_is_told_with_every_reason_and_the_command_of_each_host() -> None:
    text = render_plan(plan(Job(name="paper", script="train.py", args=("a b", "$(id)")), titan(), l40s()))
    assert text.startswith("paper: 4 ranks on 2 hosts, mixed precision fp16\n")
    assert "rank 2 (local 0): GPU 0 NVIDIA L40S GPU-l40s-01-0" in text
    assert "'a b' '$(id)'" in text
    assert '"$RUN_DIR/accelerate.yaml"' in text


def test_environments_are_shown_on_request_only() -> None:
    made = plan(Job(script="t.py", env={"MY_CACHE": "/big"}), titan())
    brief, whole = render_plan(made), render_plan(made, verbose=True)
    count = len(made.nodes[0].env)
    assert (
        f"  environment: {count} variables set, {len(made.nodes[0].unset)} removed (-v shows them)" in brief
    )
    assert ("MY_CACHE" in brief, "MY_CACHE=/big " in whole) == (False, True)
    assert "removed from the environment: " in whole


def test_secrets_are_not_shown_by_name_and_by_look_unless_asked_for() -> None:
    env = {
        "HF_TOKEN": "hf_secret",
        "WANDB_API_KEY": "w_secret",
        "DATABASE_URL": "postgres://ana:a_secret@db/x",
        "PGPASS": "p_secret",
        "ENDPOINT": "https://example.org/?token=t_secret",
    }
    words = ("--hub_token", "o_secret", "--dsn=d_secret", "https://ana:u_secret@example.org")
    made = plan(Job(script="t.py", env=env, args=words), titan())
    assert made.nodes[0].env["HF_TOKEN"] == "hf_secret"
    assert made.nodes[0].argv[-4:] == words
    for shown in (render_plan(made, verbose=True), json.dumps(encode_plan(made))):
        assert "secret" not in shown
        assert "https://ana:***@example.org" in shown
    for shown in (render_plan(made, show_secrets=True), json.dumps(encode_plan(made, show_secrets=True))):
        assert all(value in shown for value in (*env.values(), *words))


def test_secrets_in_a_script_that_is_sent_are_not_kept() -> None:
    made = plan(Job(script="t.py"), titan())
    text = 'login(token="hf_secretsecretsecret")'
    sent = replace(made, nodes=(replace(made.nodes[0], files=(("script/t.py", text),)),))
    assert "secret" not in json.dumps(encode_plan(sent))


def test_escapes_in_names_from_hosts_do_not_reach_the_terminal() -> None:
    evil = host("titan", [gpu(0), replace(gpu(1), name="evil\x1b[2J\ncard")])
    assert "\x1b" not in render_plan(plan(Job(script="t.py"), evil))


def test_the_json_view_has_its_schema_and_all_nodes() -> None:
    data = json.loads(json.dumps(encode_plan(plan(Job(script="t.py"), titan(), l40s()))))
    assert data["schema"] == "gpulaunch.plan/1"
    assert [node["host"] for node in data["nodes"]] == ["titan", "l40s-01"]
    assert data["nodes"][0]["files"]["accelerate.yaml"]


def _process(pid: int) -> Process:
    return Process(
        pid, 1, 1, 1001, "ben", "S", "python", ("python",), 9.0, 1, tty=False, environ=NO_NETWORK,
        gpu_files=NO_NETWORK, wchan=NO_NETWORK, cpu_ticks=1,
    )  # fmt: skip


def test_many_nodes_that_differ_in_numbers_and_gpus_are_printed_once() -> None:
    made = plan(Job(script="train.py"), *(l40s(2, f"l40s-{number:03}") for number in range(1, 41)))
    text = render_plan(made)
    assert "80 ranks on 40 hosts" in text
    assert text.count("node 0") == 1
    assert "and so on 39 more hosts, each with its own ranks and GPUs: l40s-[002-040]" in text
    assert text.count("compute capability") == 1
    assert "l40s-[001-040] have" in text
    assert len(encode_plan(made)["nodes"]) == 40
    odd = plan(
        Job(script="train.py"), *(l40s(2, f"l40s-{number:03}") for number in range(1, 41)), l40s(1, "odd")
    )
    assert "\nodd: node 40\n  rank 80" in render_plan(odd)
