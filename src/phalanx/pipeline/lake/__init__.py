"""The lake: journals and what is derived from them, as Delta tables with one version number.

    LAKE/deliver/_delta_log/00000000000000000007.json     a Delta table for every event, and also
    LAKE/deliver/0a1b2c3d4e5f6071-00003-0.parquet         journals, segments, views, derived tables
    LAKE/versions/                                        which version of each belongs together
    LAKE/_work/0a1b2c3d4e5f6071                           a writer that has not published yet

A writer writes Parquet files, commits them table by table, and appends the new versions of those
tables to `versions` last, in one commit: that is when readers of the lake see the change. Two
writers cannot publish the same version. If a writer is killed before that, the next one restores
the tables to the published state and removes the files.

- `lake_schema`: the tables and their columns;
- `lake_file`: Parquet files and the writer that divides rows by group and day;
- `lake`: open a lake, list its versions, read the tables of one (`Lake`, `Snapshot`);
- `lake_transaction`: change a lake (`LakeTransaction`);
- `lake_maintenance`: compact, vacuum, retain, info;
- `lake_groups`: the rows of a group as `GroupTables`.

Nothing in here imports Spark. `deltalake` is imported where Delta logs are read or written, not
where Parquet files are: tasks on workers do not need it.
"""
