"""What the ranks of a job run; installed in the images as the package `training`.

Imports torch and the standard library only, and nothing else of this repository. What decides
(cases, expected values, comparisons) imports without torch too.
"""
