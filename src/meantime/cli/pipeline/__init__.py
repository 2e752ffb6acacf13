"""What the commands of `meantime pipeline` share."""
