"""Reports of runs: one streaming pass gathers what pictures need, then HTML or the terminal."""
