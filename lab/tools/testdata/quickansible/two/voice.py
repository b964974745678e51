WORDS = "the second speaks"
