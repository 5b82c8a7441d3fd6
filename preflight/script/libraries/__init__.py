"""Models of the libraries that training scripts use."""
