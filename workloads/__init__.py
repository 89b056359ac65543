"""What runs on the platform: job builders, the command that runs a job, and its report."""
