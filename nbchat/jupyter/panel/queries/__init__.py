"""What views ask, and the answers; asking changes nothing."""
