"""A job's outcome: what its log says, what the cluster saw, the judgement, and the pages."""
