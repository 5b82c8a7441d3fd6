"""Pages, notebooks and terminals that show commands: the commands without what is around them. Pure."""
