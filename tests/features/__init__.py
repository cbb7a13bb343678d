"""The program without each feature, and with one more."""
