"""An abstract interpreter of training scripts. Its modules import each other in a circle."""
