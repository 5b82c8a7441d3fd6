"""One module per topic, one function per check; `runner` lists the modules."""
