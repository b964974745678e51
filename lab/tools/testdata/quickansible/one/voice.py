WORDS = "the first speaks"
