"""`aggregator doctor`: seeded misconfigurations, a healthy installation, and the checks by plain facts."""
