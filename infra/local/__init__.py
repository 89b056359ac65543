"""The local environment: a real Kubernetes of several nodes on one Linux machine.

Every node is a network namespace with its own containerd, kubelet and kube-proxy; the control plane
is kwokctl's. Nothing here knows what runs on the cluster.
"""
