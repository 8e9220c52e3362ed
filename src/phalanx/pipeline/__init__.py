"""The audit, history, measures and report of journals, in process and on Spark (an extra).

session      the Spark session: on this machine, on a cluster, or through Spark Connect
schemas      the tables of `journal.schema`, for Arrow and for Spark
tables       a set of tables: frames by name
group_tables the rows of one group as Arrow tables, the input of kernels
group_plan   which files a task reads to have all rows of its groups
time_window  the rows of a group between two instants
engine       a kernel on every group: in this process, or as one Spark job
open_tables  raw journals, exported Parquet or a lake as a set of tables
ingest       journals into a lake, each row once
lake         the lake: Delta tables with one version number
source       raw and live journals as a table: `spark.read.format("phalanx")`
audit        verdicts on every guarantee
history      who was in which view when, and why a member was removed
measures     latency, throughput, detectors, links, changes, partitions
report       one HTML page about a group
campaign     simulations on the executors of a cluster, one row per seed
"""
