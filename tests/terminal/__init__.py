"""What reaches the operator's terminal from hostile servers and configurations."""
