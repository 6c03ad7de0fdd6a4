"""Measure the engine, compared with `cp -r` and with the floor of the device."""
