"""Pages of docs/ that are made from the tables of the product; tests compare them with what is written."""
