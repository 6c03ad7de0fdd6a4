"""Compare the speed, the memory and the seeks of this tree with those of an earlier commit."""
