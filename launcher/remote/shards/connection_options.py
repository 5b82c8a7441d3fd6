"""What opening connections takes, as a value for other processes. Imports little: every command does."""

from launcher.config.inventory import Inventory
from launcher.remote.shards.terminal_questions import SharedAnswers
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class ShardAccess:
    """What shards need to reach the hosts of an inventory as this process does."""

    inventory: Inventory
    person: SharedAnswers
    accept_new_host_keys: bool = False
    width: int | None = None  # hosts at once, of all shards together; None: as many as are useful
