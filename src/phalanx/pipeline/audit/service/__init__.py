"""The audit of the membership service: the properties of `verify.service`, from Arrow tables."""
