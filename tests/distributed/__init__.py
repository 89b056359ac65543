"""Several real processes on one machine, with torch: run inside the worker image.

From a folder that holds this one as tests/distributed: `python3 -m unittest discover -t . -s
tests/distributed`, or pytest on this folder. Needs mpirun, and the package with its built
extension, as `training` (in the image) or as `workloads.training` (in a checkout).
"""
