"""One face for many clients, so that a test says once what all of them should see."""
