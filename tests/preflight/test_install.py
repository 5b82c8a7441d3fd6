"""What a host is told to install: torch from the index whose wheel its driver, GPUs and machine take."""

import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from preflight.checks.install import install_command
from preflight.checks.runner import check_cluster, check_host
from preflight.checks.wheels import find_wheel_index
from preflight.facts.host import HostFacts, PythonEnv
from preflight.job import Expect, Job
from preflight.probes import python_env
from tests.preflight.golden_cases import host


@pytest.mark.parametrize(
    ("driver", "gpu", "machine", "index"),
    [
        ("580.65.06", (7, 5), "x86_64", "cu130"),
        ("580.65.06", (7, 0), "x86_64", "cu126"),
        ("580.65.06", (6, 1), "x86_64", "cu126"),
        ("580.65.06", (12, 0), "x86_64", "cu130"),
        ("580.65.06", (9, 0), "aarch64", "cu130"),
        ("570.86.15", (12, 0), "x86_64", "cu128"),
        ("570.86.15", (10, 0), "aarch64", "cu128"),
        ("550.54.14", (8, 9), "x86_64", "cu126"),
        ("550.54.14", (9, 0), "aarch64", "cu126"),
        ("535.161.08", (8, 0), "x86_64", "cu126"),
        ("470.256.02", (7, 5), "x86_64", "cu118"),
        ("470.256.02", (3, 7), "x86_64", ""),
        ("470.256.02", (8, 0), "aarch64", ""),
        ("390.157", (6, 1), "x86_64", ""),
        ("550.54.14", (7, 5), "aarch64", ""),
        ("580.65.06", (9, 0), "riscv64", ""),
    ],
)
def test_the_index_fits_driver_gpu_and_machine(
    driver: str, gpu: tuple[int, int], machine: str, index: str
) -> None:
    assert find_wheel_index([gpu], driver, machine).rpartition("/")[2] == index


def test_one_index_fits_all_gpus_of_a_host() -> None:
    assert find_wheel_index([(7, 0), (8, 9)], "580.65.06", "x86_64").endswith("/cu126")
    assert find_wheel_index([(6, 0), (12, 0)], "580.65.06", "x86_64") == ""


def _fix_of(facts: HostFacts, code: str) -> str:
    (found,) = (item for item in check_host(facts, Job(), Expect()) if item.code == code)
    return found.fix


def _host(**more: Any) -> HostFacts:
    return host({"identity.machine": "x86_64", "driver.version": "535.161.08", **more})


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("ENV003", {"python.torch_cuda": "cpu"}),
        ("DRV003", {"python.torch_cuda": "13.0", "driver.cuda_version": "12.8"}),
        ("GPU006", {"python.torch_cuda": "12.8", "python.packages": {"torch": "2.11.0", "accelerate": "1.8"},
                    "gpus.0.capability": [7, 0]}),
        ("ENV002", {"python.packages": {"accelerate": "1.8"}}),
    ],
)  # fmt: skip
def test_every_text_with_an_index_names_the_one_for_the_hosts_driver(
    code: str, changes: dict[str, Any]
) -> None:
    fix = _fix_of(_host(**changes), code)
    assert "--index-url https://download.pytorch.org/whl/cu126" in fix
    assert "cu130" not in fix


def test_a_python_that_is_managed_from_outside_gets_a_virtual_environment() -> None:
    facts = _host(
        **{"python.torch_cuda": "cpu", "python.managed": True, "python.executable": "/usr/bin/python3"}
    )
    fix = _fix_of(facts, "ENV003")
    assert fix.startswith(
        "/usr/bin/python3 -m venv --system-site-packages ~/gpulaunch-venv && "
        "~/gpulaunch-venv/bin/python -m pip install"
    )
    assert "/usr/bin/python3 -m pip" not in fix
    assert fix.endswith("(then python: ~/gpulaunch-venv/bin/python for titan in hosts.yaml)")
    assert "pip install accelerate" in fix, "a new environment has neither"


@pytest.mark.parametrize(
    ("facts", "first"),
    [
        ({"absent_installers": ["pip"]}, "/x/python -m ensurepip && /x/python -m pip install"),
        (
            {"absent_installers": ["pip", "ensurepip"]},
            "curl -sS https://bootstrap.pypa.io/get-pip.py | /x/python && /x/python -m pip install",
        ),
        ({"absent_installers": ["ensurepip"]}, "/x/python -m pip install"),
        (
            {"absent_installers": ["pip", "ensurepip"], "managed": True},
            (
                "sudo apt-get update && sudo apt-get install -y python3.11-venv && "
                "/x/python -m venv --system-site-packages ~/gpulaunch"
            ),
        ),
        (
            {"absent_installers": ["pip"], "managed": True},
            "/x/python -m venv --system-site-packages ~/gpulaunch-venv",
        ),
    ],
    ids=str,
)
def test_what_an_interpreter_lacks_to_install_packages_comes_first(facts: dict[str, Any], first: str) -> None:
    python = {"executable": "/x/python", "version": "3.11.7", "torch_cuda": "cpu", **facts}
    changes = {f"python.{name}": value for name, value in python.items()}
    assert _fix_of(_host(**changes, **{"identity.uid": 1000}), "ENV003").startswith(first)
    as_root = first.replace("sudo ", "")
    assert _fix_of(_host(**changes, **{"identity.uid": 0}), "ENV003").startswith(as_root)


@pytest.mark.parametrize(
    ("installed", "words"),
    [
        ({"torch": "2.13.0+cpu"}, "install torch==2.13.0+cu126 --index-url"),
        (
            {"torch": "2.13.0", "torchvision": "0.28.0", "torchaudio": "2.11.0+cpu", "numpy": "1.26.4"},
            "install torch==2.13.0+cu126 torchvision==0.28.0+cu126 torchaudio==2.11.0+cu126 --index-url",
        ),
        ({"torch": "2.13.0a0+gitabc"}, "install --force-reinstall torch --index-url"),  # no wheel of it
        (
            {"torch": "2.2.1", "torchvision": "0.17.1"},
            "install --force-reinstall torch torchvision --index-url",
        ),
    ],
    ids=str,
)
def test_the_release_that_is_installed_stays_where_the_index_has_it(
    installed: dict[str, str], words: str
) -> None:
    """A newer one would fit neither the other hosts nor the torchvision that was built with it."""
    facts = _host(**{"python.packages": {"accelerate": "1.8", **installed}, "python.torch_cuda": "cpu"})
    assert words in _fix_of(facts, "ENV003")


def _same(code: str, **hosts: dict[str, Any]) -> str:
    facts = {name: host({"identity.machine": "x86_64", **changes}, name) for name, changes in hosts.items()}
    (found,) = (item for item in check_cluster(facts, Job(), ()) if item.code == code)
    return found.fix


def test_hosts_get_one_build_of_torch_that_runs_on_all_of_them() -> None:
    """The wheel of one host is of no use on another one whose driver is too old for it."""
    new = {"python.packages": {"torch": "2.13.0+cu130"}}
    old = {"python.packages": {"torch": "2.12.0+cu126"}, "driver.version": "550.90.07"}
    fix = _same("SAME001", a=new, b=new, c=old)
    assert fix == (
        "on a, b, c: /home/ana/venv/bin/python -m pip install torch==2.13.0+cu126 "
        "--index-url https://download.pytorch.org/whl/cu126"
    )


def test_a_package_that_differs_is_installed_where_it_differs_in_the_version_of_most() -> None:
    most, one = (
        {"python.packages": {"torch": "2.13.0", "accelerate": version}} for version in ("1.6.0", "1.9.0")
    )
    other = {**one, "python.executable": "/opt/my env/bin/python"}
    assert _same("SAME003", a=most, b=most, c=other) == (
        "on c: '/opt/my env/bin/python' -m pip install accelerate==1.6.0"
    )


@pytest.mark.parametrize(
    ("python", "command"),
    [
        (
            {"managed": True, "executable": "/usr/bin/python3"},
            "/usr/bin/python3 -m venv --system-site-packages ~/g",
        ),
        (
            {"absent_installers": ["pip"]},
            "/home/ana/venv/bin/python -m ensurepip && /home/ana/venv/bin/python -m pip",
        ),
    ],
    ids=str,
)
def test_a_version_that_differs_is_installed_by_what_the_host_has(
    python: dict[str, Any], command: str
) -> None:
    most, one = ({"python.packages": {"torch": "2.13.0", "accelerate": item}} for item in ("1.6.0", "1.9.0"))
    other = {**one, **{f"python.{name}": value for name, value in python.items()}}
    fix = _same("SAME003", a=most, b=most, c=other)
    assert fix.startswith(f"on c: {command}")
    assert " install accelerate==1.6.0" in fix
    assert fix.endswith("for c in hosts.yaml)") is ("managed" in python)


def test_without_a_known_driver_no_index_is_guessed() -> None:
    facts = _host(**{"driver": {"missing": "no answer", "code": "timeout"}, "python.torch_cuda": "cpu"})
    assert isinstance(facts.python, PythonEnv)
    command = install_command(facts, facts.python, ("torch",))
    assert "download.pytorch.org" not in command
    assert "https://pytorch.org/get-started/locally" in command


def test_a_cpu_job_is_told_of_no_index() -> None:
    facts = _host()
    assert isinstance(facts.python, PythonEnv)
    command = install_command(facts, facts.python, ("torch", "accelerate"), gpus=False)
    assert command == f"{facts.python.executable} -m pip install torch accelerate"


def test_pep_668_is_seen_where_pip_sees_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    assert not python_env._is_managed()
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    assert python_env._is_managed()
    monkeypatch.setattr(sys, "prefix", "/some/venv")
    assert not python_env._is_managed(), "a virtual environment is its user's own"


@pytest.mark.parametrize("managed", [True, False])
def test_the_path_that_a_host_tells_of_its_python_is_one_word(*, managed: bool) -> None:
    command = {"python.torch_cuda": "cpu", "python.managed": managed, "python.executable": "/x;id #/python"}
    assert "'/x;id #/python' -m " in _fix_of(_host(**command), "ENV003")
