"""InfiniBand ports."""

import os
import re
from functools import partial

from .fact import Json, fact, missing
from .files import read_int, text_or

INFINIBAND = "/sys/class/infiniband"


def infiniband() -> list[Json]:
    """Return facts.IbPort for each port; none on a host without InfiniBand."""
    ports = []
    for device in sorted(os.listdir(INFINIBAND)) if os.path.isdir(INFINIBAND) else []:
        for port in sorted(os.listdir("%s/%s/ports" % (INFINIBAND, device)), key=int):
            folder = "%s/%s/ports/%s" % (INFINIBAND, device, port)
            rate = re.match(r"[\d.]+", text_or(folder + "/rate"))
            ports.append(
                {
                    "device": device,
                    "port": int(port),
                    "state": text_or(folder + "/state").split(":")[-1].strip(),
                    "rate_gbps": float(rate.group(0))
                    if rate
                    else missing("the port names no rate", "not-supported"),
                    "link_layer": text_or(folder + "/link_layer"),
                    "link_downed": fact(partial(read_int, folder + "/counters/link_downed")),
                }
            )
    return ports
