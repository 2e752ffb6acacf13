"""What replaces parts of kazoo: its connection on the event loop, frames, refusals as errors, transactions."""
