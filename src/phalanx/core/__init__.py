"""The protocol itself, pure: time, packets and submissions come in, effects go out."""
