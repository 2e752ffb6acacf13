"""Reading together: shared partitions, and cursors that the broker keeps."""
