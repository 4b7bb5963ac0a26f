"""What a build of `tidegate` answers, recorded and compared: the parts of `scripts/answers`."""
