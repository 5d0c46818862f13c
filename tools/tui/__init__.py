"""The admin screen: ``quorate tui``. What is shown is decided in ``views``; here it is gathered."""
