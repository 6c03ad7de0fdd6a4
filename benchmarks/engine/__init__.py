"""How fast the engine is: every figure beside `cp -r` and beside the floor of the device."""
