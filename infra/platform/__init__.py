"""What any Kubernetes gets from us: namespaces, fences, Volcano, queues, device plugins."""
