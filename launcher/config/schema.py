"""The keys of hosts.yaml and of a run config, as tables: a new key is a new row.

The tables drive validation, the JSON Schemas that editors complete from (`gpulaunch schema hosts|config`),
and docs/configuration.md (tests/pages/configuration.py).
"""

from launcher.config import disconnect_options
from launcher.config.before_stop_options import BEFORE_STOP
from launcher.config.expect_options import EXPECT_KEYS
from launcher.config.host_fields import ADDRESS, INTERPRETER, OUTPUT, SCRIPT, gpus
from launcher.config.host_names import USER_PATTERN
from launcher.config.on_end_options import END_COMMAND
from launcher.config.precision_names import PRECISION_ALIASES, PRECISIONS
from launcher.config.restart_options import RESTART, RESTART_KEYS
from launcher.config.slurm_options import MAX_NODES, SLURM, SLURM_KEYS
from launcher.config.sync_options import SYNC, SYNC_KEYS
from launcher.config.value_types import (
    HOST_PATH,
    HOST_WORD,
    HOST_WORDS,
    SCALAR,
    Custom,
    Field,
    Keyword,
    ListOf,
    MapOf,
    ScalarOrMap,
    Schema,
    Section,
    Text,
    boolean,
    duration,
    integer,
    is_called,
)
from launcher.config.via_options import VIA
from launcher.config.yaml_tree import YamlNode, find_nearest, hint_nearest
from launcher.engines.base import SELECTABLE
from launcher.error_codes import list_host_codes
from preflight.job import DEFAULT_MAIN_PORT

GUARD_MODES = ("stop", "warn", "off")
BATCH_KINDS = ("batch", "accumulation")
_ENV_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_ENV = MapOf(SCALAR, "an environment variable's name", _ENV_NAME)


def _read_code(item: YamlNode) -> str:
    from preflight.checks.explain import list_codes  # noqa: PLC0415 - the checks are loaded only where one is named

    code = item.text.upper()
    known = list_codes(list_host_codes())
    if code not in known:
        raise ValueError(
            f"a check's code such as PROC001 (gpulaunch checks lists them){hint_nearest(code, tuple(known))}"
        )
    return code


MOST_COMMANDS = 99_999  # of one text

_CODE = Custom(
    "a check's code such as PROC001", _read_code, lambda: {"type": "string", "pattern": "^[A-Z]+[0-9]{3}$"}
)


def _read_words(item: YamlNode) -> tuple[str, ...]:
    parts = item.value if isinstance(item.value, tuple) else (item,)
    words = tuple(part.value for part in parts if isinstance(part.value, str))
    if len(words) < len(parts) or not any(words):
        raise ValueError("a command line, or a list of its words")
    return words


_COMMAND = Custom(
    "a command line, or a list of its words",
    _read_words,
    lambda: {"type": ["string", "array"], "items": {"type": ["string", "number", "boolean"]}},
)
_IGNORE = ListOf(_CODE, allow_scalar=True)


def _elsewhere(name: str) -> str:
    """Return where a key belongs that is unknown at its place, "" where no place has it."""
    places = {
        "of a run config": CONFIG_KEYS,
        "of a host in hosts.yaml": HOST_KEYS,
        "at the top of hosts.yaml": INVENTORY_KEYS,
        "under expect: of a host in hosts.yaml": EXPECT_KEYS,
        "under restart: of a run config": RESTART_KEYS,
        "under slurm: of a run config": SLURM_KEYS,
        "under sync: of a run config": SYNC_KEYS,
    }
    if "passw" in name.lower():
        return "; no file of gpulaunch holds a password: it asks at a terminal, `ssh-copy-id HOST` ends that"
    every = [(place, key) for place, keys in places.items() for key in keys]
    found = " and ".join(place for place, key in every if key.name == name)
    meant = (f'; did you mean "{key.name}" {place}?' for place, key in every if is_called(key, name))
    return f"; it is a key {found}" if found else next(meant, "")


def _elsewhere_than_on_top(name: str) -> str:
    """Return where a key belongs that is unknown at the top of hosts.yaml; it may be a host's name."""
    names = tuple(key.name for key in INVENTORY_KEYS)
    hosts = f"; expected one of {', '.join(names)}; a host is written below hosts:"
    return _elsewhere(name) or ("" if find_nearest(name, names) else hosts)


# fmt: off
HOST_KEYS: tuple[Field, ...] = (
    Field("address", ADDRESS, "Where to connect; else ssh_config's HostName, else the name.", "10.0.0.7"),
    Field("port", integer(1, 65535), "SSH port; else ssh_config's, else 22.", "2222"),
    Field("user", Text("a user name", USER_PATTERN), "User name on the host.", "ada"),
    Field("identity_file", Text("a local path"), "Local path of the private key; `~` is your local home.",
          "~/.ssh/cluster"),
    Field("jump", HOST_WORDS, "Jump hosts, outermost first; `none` overrides ssh_config's ProxyJump.",
          "[bastion]"),
    Field("via", VIA, "What carries bytes to the host on top of SSH or in its place; see docs/containers.md.",
          "{docker: train}"),
    Field("python", INTERPRETER, "The interpreter of the training environment, on the host.",
          "~/venv/bin/python", "python3"),
    Field("workdir", HOST_PATH, "Directory on the host that scripts and outputs are relative to.",
          "~/project"),
    Field("gpus", gpus(("all",), count=False), "Which GPUs of the host may be used.", "[0, 1]", "all"),
    Field("env", _ENV, "Environment variables for every run on this host.", "{NCCL_IB_DISABLE: 1}"),
    Field("interface", Text("a network interface", r"[^\s/\x00-\x1f\x7f]{1,15}"),
          "Interface that ranks talk over.", "eno1"),
    Field("ignore", _IGNORE, "Codes of checks that stop no launch on this host.", "[HEAL012]"),
    Field("expect", Section(EXPECT_KEYS, elsewhere=_elsewhere),
          "What is normal for this host; preflight measures against it.", "{gpus: 4}"),
)
# fmt: on

# fmt: off
INVENTORY_KEYS: tuple[Field, ...] = (
    Field(
        "defaults",
        Section(
            HOST_KEYS,
            "keys of a host, such as {user: ada}; a host goes below hosts:",
            _elsewhere,
            has_short=False,
        ),
        "Keys that every host has unless it says otherwise.",
        "{user: ada}",
    ),
    Field(
        "hosts",
        MapOf(
            Section(HOST_KEYS, elsewhere=_elsewhere),
            "a host name or a range such as l40s-[01-04]",
            r"[A-Za-z0-9_\[][A-Za-z0-9_.:@,/\[\]-]*",
        ),
        "Hosts by name; a range means several, and a plain name refines the range it is in.",
        "{titan: {address: 10.0.0.7}}",
    ),
    Field("groups", MapOf(HOST_WORDS, "a group's name", r"[A-Za-z0-9_][A-Za-z0-9_.-]*"),
          "Names for several hosts: names, ranges and other groups.", '{ada: ["l40s-[01-04]"]}'),
)
# fmt: on

# fmt: off
CONFIG_KEYS: tuple[Field, ...] = (
    Field("script", SCRIPT, "Training script on the hosts, relative to workdir. Or give `module`.",
          "train.py"),
    Field("module", Text("a Python module", r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"), "Run as python -m instead.",
          "pkg.train"),
    Field("send_script", boolean(), "The script lies beside this file and travels with the launch.", "true",
          "false"),
    Field(
        "command", _COMMAND,
        "A command that starts such a training today, instead of script or module; see docs/coming-from.md.",
        "torchrun --nproc_per_node 4 train.py"),
    Field("launch", integer(1, MOST_COMMANDS),
          "Which command of `command:` is the launch, where its text has several: a loop, alternatives.",
          "2"),
    Field("args", ListOf(SCALAR), "Arguments of the script; they arrive exactly as written.",
          '["--epochs", 3]'),
    Field(
        "engine",
        Keyword(("auto", *SELECTABLE), remedy=" (what another launcher starts goes under command:)"),
        "What starts the ranks; auto: what the script is written for, in doubt accelerate if hosts have it.",
        "torchrun", "auto"),
    Field("accelerate_config", Text("a local path"),
          "Local accelerate config file; its FSDP, DeepSpeed and other sections go to every host.",
          "fsdp.yaml"),
    Field("hosts", HOST_WORDS, "Where to run: names, ranges, groups, or all.", '["l40s-[01-02]"]',
          "localhost"),
    Field("nodes", integer(1, MAX_NODES, note="; names go under hosts"),
          "Nodes that the run uses: the first so many of `hosts` that nothing stops; else all of them.", "2"),
    Field("gpus", gpus(("all", "auto", "none"), count=True),
          "GPUs of each host: all, a count, a list, none for CPU ranks, auto for GPUs where there are any.",
          "all", "all"),
    Field(
        "processes_per_host",
        ScalarOrMap(
            integer(1, 4096),
            MapOf(integer(1, 4096), "a host: a name, a range such as l40s-[01-04], or a group", HOST_WORD),
        ),
        "CPU ranks per host, where no GPUs are used: one number, or a number for each host.",
        "{l40s-01: 2, l40s-02: 1}",
        "1",
    ),
    Field("precision", Keyword(PRECISIONS, (*PRECISION_ALIASES.items(), ("false", "no"), ("False", "no"))),
          "Mixed precision; auto decides from the GPUs and the script.", "auto", "auto"),
    Field("precision_args", MapOf(ListOf(SCALAR), "a precision", r"\w+", PRECISIONS[1:]),
          "The argument by which this script takes its precision.", '{fp16: ["--fp16"], bf16: ["--bf16"]}'),
    Field("main_port", integer(1, 65535),
          "Port that ranks meet on; another is used when it is taken, or for a single rank.", "29500",
          str(DEFAULT_MAIN_PORT)),
    Field("env", _ENV, "Environment variables of every rank.", "{TOKENIZERS_PARALLELISM: false}"),
    Field("workdir", HOST_PATH, "Directory on the host; else the workdir of the host in hosts.yaml.",
          "~/project"),
    Field("output", OUTPUT,
          "Where the script writes; preflight checks that it can, and a rehearsal stays away from it.",
          "output/paper_r64"),
    Field("guard", Keyword(GUARD_MODES, (("no", "off"), ("false", "off"), ("False", "off"))),
          "What the guard in each rank does when a run cannot train; off: no guard.", "warn", "stop"),
    Field(
        "hang_timeout", duration(),
        "End the run after so long without output, step or use of GPU or CPU on any rank; 0: only report it.",
        "30m", "0"),
    Field("on_disconnect", Keyword(disconnect_options.POLICIES),
          "What a run does when its client is gone: terminal closed, laptop asleep, link lost.", "stop",
          "continue"),
    Field("disconnect_timeout", duration(disconnect_options.MIN_TIMEOUT_S),
          "How long hosts wait for a client with `on_disconnect: stop`, and a client for silent hosts.",
          "60s", f"{disconnect_options.DEFAULT_TIMEOUT_S:g}"),
    Field(
        "grace", duration(0, disconnect_options.MAX_GRACE_S),
        "From SIGTERM to SIGKILL when a person, or a lost client, stops the run: time for a last checkpoint.",
        "60s", f"{disconnect_options.DEFAULT_GRACE_S:g}"),
    Field("before_stop", BEFORE_STOP,
          "What ranks get, and how long they have, before a run is stopped; see docs/reliability.md.",
          "{signal: USR1, ranks: 0, wait_s: 5m}"),
    Field("ignore", _IGNORE, "Codes of checks that stop no launch with this config.", "[DISK002]"),
    Field("batch_args", MapOf(SCALAR, "batch or accumulation", r"\w+", BATCH_KINDS),
          "The script's options for both; `rehearse --fit` halves one and doubles the other.",
          '{batch: "--batch-size", accumulation: "--gradient-accumulation"}'),
    Field("rehearse_args", ListOf(SCALAR),
          "Arguments added in a rehearsal; `{scratch}` is a directory of its own, removed afterwards.",
          '["--output", "{scratch}/out", "--eval-steps", 5]'),
    Field("sync", SYNC, "Send the local working tree to the hosts before the launch; see docs/sync.md.",
          "true", "false"),
    Field("restart", RESTART,
          "Start a run that failed again, from its own last checkpoint; see docs/reliability.md.",
          "{max: 2}"),
    Field("on_end", END_COMMAND,
          "A local command that gets the outcome of a run as JSON on stdin; see docs/reliability.md.",
          "[notify-run, --to, ana]"),
    Field("slurm", SLURM, "The job that `gpulaunch submit` asks Slurm for; see docs/slurm.md.",
          "{nodes: 2, gpus_per_node: 8}"),
)
# fmt: on

INVENTORY = Section(INVENTORY_KEYS, elsewhere=_elsewhere_than_on_top)
CONFIG = Section(CONFIG_KEYS, elsewhere=_elsewhere)

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMAS = {"hosts": ("gpulaunch hosts.yaml", INVENTORY), "config": ("gpulaunch run config", CONFIG)}
"""Title and keys of each file that has a JSON Schema."""


def build_schema(file: str) -> Schema:
    """Return the JSON Schema of `hosts` or `config`."""
    title, keys = SCHEMAS[file]
    return {"$schema": _DIALECT, "title": title, **keys.schema()}
