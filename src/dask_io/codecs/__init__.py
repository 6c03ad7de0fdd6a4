"""Codecs: from the bytes of a stored chunk to those of its elements, and back."""
