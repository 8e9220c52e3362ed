"""The runtime: a thread that drives members with sockets, clocks and files, and feeds the API."""
