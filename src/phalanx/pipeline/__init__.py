"""Journals to proof, history and measures, on Spark (an extra: `pip install 'phalanx[spark]'`).

session   where the work runs: here, on a cluster, or behind Spark Connect
schemas   the tables of `journal.events`, for Arrow and for Spark
tables    a set of tables to ask: frames by name
"""
