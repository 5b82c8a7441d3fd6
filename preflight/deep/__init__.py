"""Deep checks judged: what ranks measured of GPUs and links, as records, and what follows. Pure."""
