"""The wide-area membership service (S3): groups that span sites, served by mservers."""
