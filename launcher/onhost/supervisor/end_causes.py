"""What made a run end, as `cause` in its state and events; launcher/rundir/end_state.py judges by it.

The reason beside it (`why`) is a sentence for people, which no program reads.
"""

EXIT = "exit"  # its launcher ended unasked: the exit codes say how
RANK = "rank"  # a rank failed
HANG = "hang"
NO_CLIENT = "no_client"  # no client has followed it
REQUEST = "request"  # a person asked, by a client
PEER = "peer"  # a client asked, since another node of the run failed or was lost
SIGNAL = "signal"  # SIGTERM without a request: the host, or a scheduler
SUPERVISOR = "supervisor"  # which was killed, or failed
REFUSED = "refused"  # it never started
