"""The control plane's messages between brokers and controllers, in CBOR."""
