"""Logins of a user on a host: that they are there, and never what they say."""

import json
from pathlib import Path

import pytest

from launcher.config.inventory import HostEntry
from launcher.host_checks.preflight import build_agent_request
from preflight.job import Job
from preflight.probes.logins import find_logins

KEY = "0123456789abcdef" * 2


def look(home: Path, monkeypatch: pytest.MonkeyPatch, **environ: str) -> list[str]:
    monkeypatch.setenv("HOME", str(home))
    return find_logins(environ, str(home / "work"))


def put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("file", "text", "found"),
    [
        (".netrc", f"machine api.wandb.ai\n  login user\n  password {KEY}\n", ["wandb"]),
        ("_netrc", f"machine api.wandb.ai login user password {KEY}", ["wandb"]),
        (".netrc", f"machine github.com login wandb password {KEY}", []),
        (".config/wandb/settings", "[default]\nmode = offline\n", ["wandb"]),
        ("work/wandb/settings", "[default]\ndisabled = true\n", ["wandb"]),
        (".config/wandb/settings", "[default]\nentity = ada\nmode = online\n", []),
        (".cache/huggingface/token", "hf_abc", ["huggingface"]),
        (".cache/huggingface/token", "\n", []),
        (
            ".cache/huggingface/hub/models--meta-llama--Llama-3.1-8B/refs/main",
            "",
            ["meta-llama/Llama-3.1-8B"],
        ),
        (".cache/huggingface/hub/models--ada--secret/refs/main", "", []),
        (".comet.config", f"[comet]\napi_key = {KEY}\n", ["comet_ml"]),
        ("work/.comet.config", f"[comet]\napi_key={KEY}\n", ["comet_ml"]),
        (".comet.config", "[comet]\nworkspace = ada\n", []),
        (".swanlab/.netrc", f"machine https://api.swanlab.cn login user password {KEY}", ["swanlab"]),
        (".swanlab/config.yaml", f"api_key: {KEY}\n", ["swanlab"]),
        ("work/swanlab.yml", "mode: offline\n", ["swanlab"]),
        ("work/.env", f"COMET_API_KEY={KEY}\n", ["comet_ml", "swanlab"]),  # whose names are not told apart
        ("clearml.conf", "api { credentials {} }", ["clearml"]),
    ],
)
def test_files_log_a_user_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, found: list[str]
) -> None:
    put(tmp_path / file, text)
    assert look(tmp_path, monkeypatch) == found


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("WANDB_API_KEY", "set", ["wandb"]),
        ("WANDB_MODE", "offline", ["wandb"]),
        ("WANDB_MODE", "online", []),
        ("WANDB_DISABLED", "true", ["wandb"]),
        ("HF_TOKEN", "set", ["huggingface"]),
        ("HF_HUB_OFFLINE", "1", ["huggingface"]),
        ("HF_HUB_OFFLINE", "0", []),
        ("COMET_API_KEY", "set", ["comet_ml"]),
        ("COMET_START_ONLINE", "set", ["comet_ml"]),
        ("COMET_MODE", "disabled", ["comet_ml"]),
        ("COMET_MODE", "create", []),
        ("NEPTUNE_API_TOKEN", "set", ["neptune"]),
        ("NEPTUNE_MODE", "debug", ["neptune"]),
        ("NEPTUNE_MODE", "async", []),
        ("SWANLAB_API_KEY", "set", ["swanlab"]),
        ("SWANLAB_MODE", "local", ["swanlab"]),
        ("SWANLAB_MODE", "cloud", []),
        ("CLEARML_API_ACCESS_KEY", "set", ["clearml"]),
        ("CLEARML_OFFLINE_MODE", "1", ["clearml"]),
    ],
)
def test_variables_log_a_user_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, found: list[str]
) -> None:
    assert look(tmp_path, monkeypatch, **{name: value}) == found


def test_the_server_of_a_company_is_another_than_that_of_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / ".netrc", f"machine w.corp.example login user password {KEY}")
    assert look(tmp_path, monkeypatch, WANDB_BASE_URL="https://w.corp.example:8080/x") == ["wandb"]
    assert look(tmp_path, monkeypatch) == []


def test_a_request_says_that_a_key_is_given_and_not_which() -> None:
    entry = HostEntry("titan", env={"HF_TOKEN": "hf_" + KEY})
    request = build_agent_request(
        entry, Job(script="a.py", env={"WANDB_API_KEY": KEY, "WANDB_MODE": "online"})
    )
    assert request.env == {"WANDB_API_KEY": "set", "HF_TOKEN": "set", "WANDB_MODE": "online"}
    assert KEY not in json.dumps(request.to_json() if hasattr(request, "to_json") else repr(request))
