"""Plan, run, resume, verify and repair what the user requests."""
