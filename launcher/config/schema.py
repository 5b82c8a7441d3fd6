"""The keys of hosts.yaml and of a run config, as tables: a new key is a new row.

The tables drive validation, the JSON Schemas that editors complete from (`gpulaunch schema hosts|config`),
and docs/configuration.md.
"""

from collections.abc import Callable

from launcher.config.disconnect_options import DEFAULT_GRACE_S, DEFAULT_TIMEOUT_S, POLICIES
from launcher.config.fields import (
    HOST_WORD,
    HOST_WORDS,
    Boolean,
    Custom,
    Duration,
    Field,
    FieldType,
    Integer,
    Keyword,
    ListOf,
    MapOf,
    Number,
    Scalar,
    ScalarOrMap,
    Schema,
    Section,
    Text,
)
from launcher.config.host_fields import ADDRESS, INTERPRETER, MAX_GPUS, VERSIONS, gpus
from launcher.config.host_names import USER_PATTERN
from launcher.config.restart_options import RESTART_KEYS, RestartField
from launcher.config.slurm_options import SLURM_KEYS, SlurmKind
from launcher.config.sync_options import SYNC_KEYS, SyncField
from launcher.config.via_options import VIA
from launcher.config.yaml_tree import YamlNode, nearest
from launcher.engines.base import ENGINES
from launcher.error_codes import host_codes
from preflight.job import DEFAULT_MAIN_PORT, Expect

PRECISIONS = ("auto", "no", "fp16", "bf16", "fp8")
PRECISION_ALIASES = {"fp32": "no", "float32": "no", "float16": "fp16", "bfloat16": "bf16"}
"""What people type for accelerate's words."""
GUARDS = ("stop", "warn", "off")
BATCH_KINDS = ("batch", "accumulation")
_ENV_NAME = r"[A-Za-z_][A-Za-z0-9_]*"


_ENV = MapOf(Scalar(), "an environment variable's name", _ENV_NAME)
_XIDS = ListOf(Integer(1, 1000))
_DEFAULTS = Expect()


def _read_code(item: YamlNode) -> str:
    from preflight.checks.explain import known_codes  # noqa: PLC0415 - the checks are loaded only where one is named

    code = item.value.upper() if isinstance(item.value, str) else ""
    known = known_codes(host_codes())
    if code not in known:
        raise ValueError(
            f"a check's code such as PROC001 (gpulaunch checks lists them){nearest(code, tuple(known))}"
        )
    return code


_CODE = Custom(
    "a check's code such as PROC001", _read_code, lambda: {"type": "string", "pattern": "^[A-Z]+[0-9]{3}$"}
)
_IGNORE = ListOf(_CODE, lone=True)


def _elsewhere(name: str) -> str:
    """Return where a key belongs that is none here, "" where it is none anywhere."""
    places = {
        "of a run config": CONFIG_KEYS,
        "of a host in hosts.yaml": HOST_KEYS,
        "at the top of hosts.yaml": INVENTORY_KEYS,
        "under expect: of a host in hosts.yaml": EXPECT_KEYS,
    }
    found = [place for place, keys in places.items() if name in {key.name for key in keys}]
    return f"; it is a key {' and '.join(found)}" if found else ""


def _expect(name: str, kind: FieldType, doc: str, example: str = "") -> Field:
    """Return a row whose default is the one in `Expect`, which is also the example unless one is given."""
    default = getattr(_DEFAULTS, name)
    shown = "" if default is None else str(list(default) if isinstance(default, tuple) else default)
    return Field(name, kind, doc, example or shown, shown)


EXPECT_KEYS: tuple[Field, ...] = (
    _expect("gpus", Integer(0, MAX_GPUS), "How many GPUs the host should have.", "4"),
    _expect("driver", VERSIONS, "Which driver versions are right.", '">=570"'),
    _expect(
        "memory_in_use_mib",
        Integer(0, 10**7),
        "Memory in use on a GPU that needs no process to explain it, in MiB.",
    ),
    _expect("shm_mib_per_rank", Integer(0, 10**7), "Free /dev/shm per rank, in MiB."),
    _expect("disk_free_percent", Number(), "Free space on the file systems a job uses, in percent."),
    _expect(
        "disk_free_mib",
        Integer(0, 10**9),
        "Less free space than this, in MiB, is short whatever the percentage.",
    ),
    _expect("free_inodes_percent", Number(), "Free inodes on those file systems, in percent."),
    _expect(
        "temperature_margin_c",
        Integer(0, 100),
        "How far below its slowdown temperature a GPU should be, in °C.",
    ),
    _expect("clock_skew_s", Duration(), "How far clocks may differ."),
    _expect("nofile", Integer(0, 2**31), "Open files a process should be allowed."),
    _expect("memory_available_percent", Number(), "Memory available on the host, in percent."),
    _expect("swap_used_percent", Number(), "Warn when more swap than this is in use, in percent."),
    _expect("load_per_cpu", Number(), "Warn when the 1-minute load average per CPU exceeds this."),
    _expect(
        "retired_pages", Integer(0, 10**6), "Warn when more memory pages than this are retired on a GPU."
    ),
    _expect("nvlink_errors", Integer(0, 10**9), "Warn when an NVLink has counted more errors than this."),
    _expect(
        "recent_xid_s", Duration(), "For how long gpulaunch reports an Xid that does not condemn its GPU."
    ),
    _expect("fatal_xids", _XIDS, "Xids after which a GPU needs a reset or a technician."),
    _expect("program_xids", _XIDS, "Xids that are usually a program's own fault, or its end."),
    _expect("stopped_s", Duration(), "A stopped process older than this is half dead."),
)

HOST_KEYS: tuple[Field, ...] = (
    Field(
        "address",
        ADDRESS,
        "Where to connect; else ssh_config's HostName, else the name.",
        "10.0.0.7",
    ),
    Field("port", Integer(1, 65535), "SSH port; else ssh_config's, else 22.", "2222"),
    Field("user", Text("a user name", USER_PATTERN), "User name on the host.", "ada"),
    Field(
        "identity_file",
        Text("a local path"),
        "Local path of the private key; `~` is your local home.",
        "~/.ssh/cluster",
    ),
    Field(
        "jump",
        HOST_WORDS,
        "Jump hosts, outermost first; `none` overrides ssh_config's ProxyJump.",
        "[bastion]",
    ),
    Field(
        "via",
        VIA,
        "What carries bytes to the host on top of SSH or in its place; see docs/containers.md.",
        "{docker: train}",
    ),
    Field(
        "python",
        INTERPRETER,
        "The interpreter of the training environment, on the host.",
        "~/venv/bin/python",
        "python3",
    ),
    Field(
        "workdir",
        Text("a path on the host"),
        "Directory on the host that scripts and outputs are relative to.",
        "~/project",
    ),
    Field("gpus", gpus(("all",), count=False), "Which GPUs of the host may be used.", "[0, 1]", "all"),
    Field("env", _ENV, "Environment variables for every run on this host.", "{NCCL_IB_DISABLE: 1}"),
    Field(
        "interface",
        Text("a network interface", r"[^\s/\x00-\x1f\x7f]{1,15}"),
        "Interface that ranks talk over.",
        "eno1",
    ),
    Field("ignore", _IGNORE, "Codes of checks that stop no launch on this host.", "[HEAL012]"),
    Field(
        "expect",
        Section(EXPECT_KEYS, elsewhere=_elsewhere),
        "What is normal for this host; preflight measures against it.",
        "{gpus: 4}",
    ),
)

INVENTORY_KEYS: tuple[Field, ...] = (
    Field(
        "defaults",
        Section(HOST_KEYS, elsewhere=_elsewhere),
        "Keys that every host has unless it says otherwise.",
        "{user: ada}",
    ),
    Field(
        "hosts",
        MapOf(
            Section(HOST_KEYS, elsewhere=_elsewhere),
            "a host name or a range such as l40s-[01-04]",
            r"[A-Za-z0-9_\[][A-Za-z0-9_.:,/\[\]-]*",
        ),
        "Hosts by name; a range means several, and a plain name refines the range it is in.",
        "{titan: {address: 10.0.0.7}}",
    ),
    Field(
        "groups",
        MapOf(HOST_WORDS, "a group's name", r"[A-Za-z0-9_][A-Za-z0-9_.-]*"),
        "Names for several hosts: names, ranges and other groups.",
        '{ada: ["l40s-[01-04]"]}',
    ),
)

CONFIG_KEYS: tuple[Field, ...] = (
    Field(
        "script",
        Text("a path"),
        "Training script on the hosts, relative to workdir. Or give `module`.",
        "train.py",
    ),
    Field(
        "module",
        Text("a Python module", r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"),
        "Run as python -m instead.",
        "pkg.train",
    ),
    Field(
        "send_script",
        Boolean(),
        "The script lies beside this file and travels with the launch.",
        "true",
        "false",
    ),
    Field(
        "args",
        ListOf(Scalar()),
        "Arguments of the script; they arrive exactly as written.",
        '["--epochs", 3]',
    ),
    Field(
        "engine",
        Keyword(("auto", *ENGINES)),
        "What starts the ranks; auto: accelerate where the script uses it or the Trainer, else torchrun.",
        "torchrun",
        "auto",
    ),
    Field(
        "hosts", HOST_WORDS, "Where to run: names, ranges, groups, or all.", '["l40s-[01-02]"]', "localhost"
    ),
    Field(
        "gpus",
        gpus(("all", "auto", "none"), count=True),
        "GPUs of each host: all, a count, a list, none for CPU ranks, auto for GPUs where there are any.",
        "all",
        "all",
    ),
    Field(
        "processes_per_host",
        ScalarOrMap(
            Integer(1, 4096),
            MapOf(Integer(1, 4096), "a host: a name, a range such as l40s-[01-04], or a group", HOST_WORD),
        ),
        "CPU ranks per host, where no GPUs are used: one number, or a number for each host.",
        "{l40s-01: 2, l40s-02: 1}",
        "1",
    ),
    Field(
        "precision",
        Keyword(PRECISIONS, tuple(PRECISION_ALIASES.items())),
        "Mixed precision; auto decides from the GPUs and the script.",
        "auto",
        "auto",
    ),
    Field(
        "precision_args",
        MapOf(ListOf(Scalar()), "a precision", r"\w+", PRECISIONS[1:]),
        "The argument by which this script takes its precision.",
        '{fp16: ["--fp16"], bf16: ["--bf16"]}',
    ),
    Field(
        "main_port",
        Integer(1, 65535),
        "Port that ranks meet on; another is used when it is taken.",
        "29500",
        str(DEFAULT_MAIN_PORT),
    ),
    Field("env", _ENV, "Environment variables of every rank.", "{TOKENIZERS_PARALLELISM: false}"),
    Field(
        "workdir",
        Text("a path on the host"),
        "Directory on the host; else the workdir of the host in hosts.yaml.",
        "~/project",
    ),
    Field(
        "output",
        Text("a path on the host"),
        "Where the script writes; preflight checks that it can, and a rehearsal stays away from it.",
        "output/paper_r64",
    ),
    Field(
        "guard",
        Keyword(GUARDS),
        "What the guard in each rank does when a run cannot train; off: no guard.",
        "warn",
        "stop",
    ),
    Field(
        "hang_timeout",
        Duration(),
        "End the run after so long without output, step or use of GPU or CPU on any rank; 0: only report it.",
        "30m",
        "0",
    ),
    Field(
        "on_disconnect",
        Keyword(POLICIES),
        "What a run does when its client is gone: terminal closed, laptop asleep, link lost.",
        "stop",
        "continue",
    ),
    Field(
        "disconnect_timeout",
        Duration(),
        "With `on_disconnect: stop`: end the run after so long without a client.",
        "60s",
        f"{DEFAULT_TIMEOUT_S:g}",
    ),
    Field(
        "grace",
        Duration(),
        "From SIGTERM to SIGKILL when a person, or a lost client, stops the run: time for a last checkpoint.",
        "60s",
        f"{DEFAULT_GRACE_S:g}",
    ),
    Field("ignore", _IGNORE, "Codes of checks that stop no launch with this config.", "[DISK002]"),
    Field(
        "batch_args",
        MapOf(Scalar(), "batch or accumulation", r"\w+", BATCH_KINDS),
        "The script's options for both; `rehearse --fit` halves one and doubles the other.",
        '{batch: "--batch-size", accumulation: "--gradient-accumulation"}',
    ),
    Field(
        "rehearse_args",
        ListOf(Scalar()),
        "Arguments added in a rehearsal; `{scratch}` is a directory of its own, removed afterwards.",
        '["--output", "{scratch}/out", "--eval-steps", 5]',
    ),
    Field(
        "sync",
        SyncField(),
        "Send the local working tree to the hosts before the launch; see docs/sync.md.",
        "true",
        "false",
    ),
    Field(
        "restart",
        RestartField(),
        "Start a run that failed again, from its own last checkpoint; see docs/reliability.md.",
        "{max: 2}",
    ),
    Field(
        "slurm",
        SlurmKind(),
        "The job that `gpulaunch submit` asks Slurm for; see docs/slurm.md.",
        "{nodes: 2, gpus_per_node: 8}",
    ),
)

INVENTORY = Section(INVENTORY_KEYS, elsewhere=_elsewhere)
CONFIG = Section(CONFIG_KEYS, elsewhere=_elsewhere)

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def hosts_schema() -> Schema:
    """Return the JSON Schema of hosts.yaml."""
    return {"$schema": _DIALECT, "title": "gpulaunch hosts.yaml", **INVENTORY.schema()}


def config_schema() -> Schema:
    """Return the JSON Schema of a run config."""
    return {"$schema": _DIALECT, "title": "gpulaunch run config", **CONFIG.schema()}


SCHEMAS: dict[str, Callable[[], Schema]] = {"hosts": hosts_schema, "config": config_schema}


def reference() -> str:
    """Return the Markdown tables of docs/configuration.md."""
    parts = [
        ("hosts.yaml", INVENTORY_KEYS),
        ("A host (and `defaults`)", HOST_KEYS),
        ("`expect` of a host", EXPECT_KEYS),
        ("A run config", CONFIG_KEYS),
        ("`sync` of a run config", SYNC_KEYS),
        ("`restart` of a run config", RESTART_KEYS),
        ("`slurm` of a run config", SLURM_KEYS),
    ]
    return "\n".join(_section(title, keys) for title, keys in parts)


def _section(title: str, keys: tuple[Field, ...]) -> str:
    rows = [
        f"## {title}",
        "",
        "| key | what | expected | default | example |",
        "| --- | --- | --- | --- | --- |",
    ]
    for key in keys:
        default = f"`{key.default}`" if key.default else ""
        rows.append(
            f"| `{key.name}` | {key.doc} | {_cell(key.kind)} | {default} | `{key.name}: {key.example}` |"
        )
    return "\n".join([*rows, ""])


def _cell(kind: FieldType) -> str:
    return kind.expected.replace("|", "\\|")
