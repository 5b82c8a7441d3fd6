"""Commands in manifests of Kubernetes, Compose, clouds and CI, and what keys around them ask for. Pure."""
