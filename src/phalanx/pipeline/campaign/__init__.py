"""Campaigns: simulations spread over the executors of a cluster, a row a seed.

seeds    one seed: play it, judge it, and say what came of it in one row (no Spark)
code     which code that was
store    the rows in a folder: waves that appear whole, and what is still to do (no Spark)
waves    the work: waves of tasks until every seed is there
summary  what a folder of rows comes to (no Spark)
"""
