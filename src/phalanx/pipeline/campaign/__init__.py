"""Campaigns: simulations on the executors of a cluster, one row per seed.

seed_task     simulate and check one seed, and return the result as one row (no Spark)
code_version  the version of the code that a campaign runs
store         the rows in a folder: one file per wave, and the seeds that are missing (no Spark)
scheduler     waves of tasks until every seed has a row
summary       totals and failures of a folder of rows (no Spark)
"""
