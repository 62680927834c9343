"""Where sessions are kept, and the forms they are given away in."""
