"""What is durable of a target: journal, ledger, and the lock of the run that writes it."""
