"""An interactive chat: its turns one by one, its commands, what messages attach."""
