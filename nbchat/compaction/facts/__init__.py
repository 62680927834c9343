"""Facts that code keeps beside a summary, read from the transcript word for word."""
