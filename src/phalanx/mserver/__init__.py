"""Processes of the wide-area membership service: mservers, interfaces and their clients."""
