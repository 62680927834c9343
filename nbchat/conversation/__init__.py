"""What was said: entries, sessions, events, turns, tools and costs."""
