"""The experiments of the report in docs/report.md."""
