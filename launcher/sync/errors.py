"""Why a sync was not done. Nothing has been launched then."""

from launcher.errors import RunFailed


class SyncFailed(RunFailed):
    """The tree could not be read here, or could not be written on a host."""
