"""Agreed views: contexts and closed sets (S0 sections 4 and 5; PROTOCOLS B.7)."""
