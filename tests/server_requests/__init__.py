"""Questions to the person, log lines and progress, between both eras, over every transport and by every door."""
