"""Simulation of the wide-area membership service (`phalanx.service`)."""
