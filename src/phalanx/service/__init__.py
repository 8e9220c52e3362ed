"""The wide-area membership service of S3: sets of servers above local networks.

The modules here are pure (time comes in as `now`, effects are returned). docs/service/design.md
lists them; docs/service/rules.md says which rule is where and what shows it.
"""
