"""What the user asked for: planned, run, resumed, verified and repaired."""
