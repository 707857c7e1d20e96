"""Who watches a run from outside: live page, Prometheus, OpenTelemetry."""
