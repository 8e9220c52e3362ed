"""The history of a group: who was in which view when, and why a member was removed.

clocks           a member's own clock, and the wall clock
intervals        views and memberships as intervals
view_summary     the views of a group, by any member that installed them
instant          an instant as a user writes it
lookup           runs and members by name
view_at          the view of a member at an instant
removal_outcome  how a member's time in a view ended, by its own journal
removals         each removal with its evidence, at each member that made it
why              the removals of one member
render           a removal as lines for people, and as JSON

Each is a function of the tables of one group in one run, without Spark; `engine` runs them on all
groups.
"""
