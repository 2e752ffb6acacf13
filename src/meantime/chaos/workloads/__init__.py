"""Users of each capability, at small rates, who write down what they ask, what they are told, and what they get."""
