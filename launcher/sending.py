"""The script that lies beside its run config here and travels with the launch."""

from launcher.config import RunConfig
from launcher.errors import BadInput
from launcher.planning import Sent


def sent_script(config: RunConfig) -> Sent | None:
    """Return the script to send, None when it lies on the hosts already. Raises BadInput."""
    if config.script_here is None:
        return None
    try:
        return Sent(config.script_here.name, config.script_here.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        message = f"{config.script_here}: the script to send is not UTF-8 text"
        raise BadInput(message, "save it as UTF-8") from None
