"""Members of groups that go on by themselves until they are told to stop."""
