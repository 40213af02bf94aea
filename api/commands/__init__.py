"""What each word of the command line does; imported only when that word is used."""
