"""Exhaustive search of the log of a small set of the service (`phalanx.service.set_log`)."""
