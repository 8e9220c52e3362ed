"""Ways to the network: UDP sockets behind one small interface, and faults on demand."""
