"""The journal of a target, the ledger of its durable blocks, and the lock of its run."""
