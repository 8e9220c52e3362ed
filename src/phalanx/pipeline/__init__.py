"""Journals to proof, history and measures, on Spark (an extra: `pip install 'phalanx[spark]'`).

session   where the work runs: here, on a cluster, or behind Spark Connect
schemas   the tables of `journal.events`, for Arrow and for Spark
tables    a set of tables to ask: frames by name
opening   whatever holds journals becomes a set of tables
ingest    journals into a lake, each row once
store     the lake: Parquet files, of which a manifest lists those that are there
source    raw and live journals as a table: `spark.read.format("phalanx")`
audit     every guarantee over ranges of messages
history   who was in which view when, and why a member was removed
measures  latency, throughput, detectors, links, changes, partitions
report    one page to look at
campaign  simulations by the seed, on executors
"""
