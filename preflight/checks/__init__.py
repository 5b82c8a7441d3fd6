"""One module per topic, one function per check; `table` lists the modules."""
