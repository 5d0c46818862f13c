"""One function per API: a request in, a response or a promise of one out."""
