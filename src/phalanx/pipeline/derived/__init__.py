"""Derived tables of a lake: what the rows of journals show, ready for queries.

derived_views, derived_suspicions, derived_traffic
                    the rows of the tables, from history and measures
derived_tables      the tables by name: schema, key, time
derive_group        the kernel: all tables of one group
derive_verdicts     verdicts and findings of each view, by the audit
derive              fill the tables of a lake: `phalanx lake derive`
"""
