"""`expect:` of a host in hosts.yaml: what a healthy host has."""

from launcher.config.host_fields import MAX_GPUS, VERSIONS
from launcher.config.value_types import NUMBER, Field, FieldType, ListOf, duration, integer
from preflight.job import Expect

_XIDS = ListOf(integer(1, 1000))
_DEFAULTS = Expect()


def _expect(name: str, kind: FieldType, doc: str, example: str = "") -> Field:
    """Return a row whose default is the one in `Expect`, which is also the example unless one is given."""
    default = getattr(_DEFAULTS, name)
    shown = "" if default is None else str(list(default) if isinstance(default, tuple) else default)
    return Field(name, kind, doc, example or shown, shown)


# fmt: off
EXPECT_KEYS: tuple[Field, ...] = (
    _expect("gpus", integer(0, MAX_GPUS), "How many GPUs the host should have.", "4"),
    _expect("driver", VERSIONS, "Which driver versions are right.", '">=570"'),
    _expect("memory_in_use_mib", integer(0, 10**7, in_mib=True),
            "Memory in use on a GPU that needs no process to explain it, in MiB."),
    _expect("shm_mib_per_rank", integer(0, 10**7, in_mib=True), "Free /dev/shm per rank, in MiB."),
    _expect("disk_free_percent", NUMBER, "Free space on the file systems a job uses, in percent."),
    _expect("disk_free_mib", integer(0, 10**9, in_mib=True),
            "Less free space than this, in MiB, is short whatever the percentage."),
    _expect("free_inodes_percent", NUMBER, "Free inodes on those file systems, in percent."),
    _expect("temperature_margin_c", integer(0, 100),
            "How far below its slowdown temperature a GPU should be, in °C."),
    _expect("clock_skew_s", duration(), "How far clocks may differ."),
    _expect("nofile", integer(0, 2**31), "Open files a process should be allowed."),
    _expect("memory_available_percent", NUMBER, "Memory available on the host, in percent."),
    _expect("swap_used_percent", NUMBER, "Warn when more swap than this is in use, in percent."),
    _expect("load_per_cpu", NUMBER, "Warn when the 1-minute load average per CPU exceeds this."),
    _expect("retired_pages", integer(0, 10**6),
            "Warn when more memory pages than this are retired on a GPU."),
    _expect("nvlink_errors", integer(0, 10**9), "Warn when an NVLink has counted more errors than this."),
    _expect("recent_xid_s", duration(),
            "For how long gpulaunch reports an Xid that does not condemn its GPU."),
    _expect("fatal_xids", _XIDS, "Xids after which a GPU needs a reset or a technician."),
    _expect("program_xids", _XIDS, "Xids that are usually a program's own fault, or its end."),
    _expect("gemm_tflops", NUMBER, "Deep checks: the least rate of matrix products on a GPU, in TFLOPS.",
            "600"),
    _expect("memory_gbs", NUMBER, "Deep checks: the least rate of copies in a GPU's memory, in GB/s.",
            "2400"),
    _expect("h2d_gbs", NUMBER, "Deep checks: the least rate of copies from the host to a GPU, in GB/s.",
            "48"),
    _expect("allreduce_gbs", NUMBER,
            "Deep checks: the least bus rate of an all-reduce within the host, in GB/s.", "430"),
    _expect("stopped_s", duration(), "A stopped process older than this is half dead."),
)
# fmt: on
