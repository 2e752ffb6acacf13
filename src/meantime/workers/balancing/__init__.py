"""Who owns which queue: membership, plan, claims."""
