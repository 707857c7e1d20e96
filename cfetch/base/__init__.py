"""What every room stands on: errors, events, records, clock, secrets, options."""
