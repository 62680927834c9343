"""nbchat: a notebook chat whose conversations never hit the context wall."""
