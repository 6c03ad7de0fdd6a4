"""A plan or a run as text, JSON or a picture."""
