"""When a frame may go up: the agreed order, and the cursor that applies every service."""
