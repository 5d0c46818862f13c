"""PySyncObj, boxed and hardened: a pure core, its journal and snapshots."""
