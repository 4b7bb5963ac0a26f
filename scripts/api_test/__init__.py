"""What `scripts/api-test` is made of."""
