"""What operators have done: who, what, with what, how many."""
