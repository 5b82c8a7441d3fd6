"""A rehearsal judged, kept and compared; running it is launcher/rehearsal/rehearse.py."""
