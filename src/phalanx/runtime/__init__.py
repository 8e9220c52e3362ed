"""The thread that drives members with sockets, clocks and files, and what it hands to the faces."""
