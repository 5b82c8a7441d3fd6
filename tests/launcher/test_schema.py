"""One table drives validation, JSON Schemas and the reference; these must agree with one another."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from launcher.commands.schema import command
from launcher.config import schema
from launcher.config import value_types as kinds
from launcher.config.before_stop_options import BEFORE_STOP_KEYS, BeforeStop
from launcher.config.expect_options import EXPECT_KEYS
from launcher.config.inventory import HostEntry
from launcher.config.restart_options import RESTART_KEYS, RestartOptions
from launcher.config.slurm_options import SLURM_KEYS, SlurmSpec
from launcher.config.sync_options import SYNC_KEYS
from launcher.config.yaml_reader import parse_text
from launcher.config.yaml_tree import ConfigIssues
from preflight.job import Expect, Job
from tests.pages.configuration import render_reference

ROOT = Path(__file__).parents[2]


def fields(kind: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(kind)}


def names(keys: tuple[kinds.Field, ...]) -> set[str]:
    return {key.name for key in keys}


def test_every_key_has_a_field_and_every_field_a_key() -> None:
    assert names(schema.HOST_KEYS) == fields(HostEntry) - {
        "name",
        "alias",
        "in_inventory",
        "names_python",
        "gpus_source",
    }
    elsewhere = {
        *("hosts", "nodes"),
        "sync",
        "restart",
        "on_disconnect",
        "disconnect_timeout",
        "grace",
        "ignore",
        "slurm",
        "before_stop",
        "on_end",
        "launch",  # which command of `command:`
    }
    assert names(schema.CONFIG_KEYS) - elsewhere == fields(Job) - {
        *("name", "rehearse_steps", "typed"),
        "subdirectory",  # of `command: cd DIR && ...`
        "uses_torch",  # of what the script imports
        "gpus_by_auto",  # of what the hosts have
        "receives_tree",  # of --sync
        "local_inputs",  # of what lies on this machine
        *("tree_is_sent", "logins"),  # of what was sent, and how its hosts are reached
        *("restarts", "resumes"),  # of restart:
        *("launcher_files", "launcher_notes", "deepspeed"),  # of accelerate_config, and files that it names
    }
    assert names(EXPECT_KEYS) == fields(Expect)
    assert names(RESTART_KEYS) == fields(RestartOptions)
    assert names(BEFORE_STOP_KEYS) == fields(BeforeStop)
    assert names(SLURM_KEYS) == fields(SlurmSpec)


@pytest.mark.parametrize("what", schema.SCHEMAS)
def test_a_schema_is_valid_json_schema(what: str) -> None:
    result = CliRunner().invoke(command, [what])
    assert result.exit_code == 0
    jsonschema.Draft202012Validator.check_schema(json.loads(result.output))


@pytest.mark.parametrize(
    ("what", "path"),
    [("hosts", "hosts.example.yaml"), *(("config", str(path)) for path in ROOT.glob("templates/*.yaml"))],
)
def test_what_we_ship_follows_its_schema(what: str, path: str) -> None:
    jsonschema.validate(yaml.safe_load((ROOT / path).read_text()), schema.build_schema(what))


@pytest.mark.parametrize(
    "key",
    [
        *schema.HOST_KEYS,
        *schema.CONFIG_KEYS,
        *EXPECT_KEYS,
        *schema.INVENTORY_KEYS,
        *SYNC_KEYS,
        *RESTART_KEYS,
        *SLURM_KEYS,
        *BEFORE_STOP_KEYS,
    ],
    ids=lambda key: key.name,
)
def test_the_example_of_every_key_is_valid(key: kinds.Field) -> None:
    mistakes = ConfigIssues()
    key.kind.read(parse_text(key.example, "example", mistakes), mistakes)
    assert mistakes.found == []
    jsonschema.validate(yaml.safe_load(key.example), key.kind.schema())


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("hosts", "host: {}"),
        ("hosts", "hosts: {a: {port: 0}}"),
        ("hosts", "hosts: {a: {gpus: []}}"),
        ("hosts", "hosts: {a: {env: {A-B: 1}}}"),
        ("config", "gpus: some"),
        ("config", "precision: half"),
        ("config", "precision_args: {half: []}"),
        ("config", "args: text"),
        ("config", "restart: 2"),
        ("config", "restart: {max: -1}"),
        ("config", "restart: {retry_on: [network]}"),
        ("config", "restart: {checkpoints: ../other/*}"),
    ],
)
def test_schema_and_validation_refuse_the_same(what: str, text: str) -> None:
    record = {"hosts": schema.INVENTORY, "config": schema.CONFIG}[what]
    mistakes = ConfigIssues()
    record.read(parse_text(text, "x", mistakes), mistakes)
    assert mistakes.found
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), schema.build_schema(what))


def test_the_reference_is_current() -> None:
    written = (ROOT / "docs" / "configuration.md").read_text()
    assert written.endswith(render_reference()), "write its tables anew: python -m tests.pages"
